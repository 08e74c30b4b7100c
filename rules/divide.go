package rules

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
)

// maxPiece is about how large a file that grows with the fleet becomes before it
// is divided. Two such files and all that does not grow fit into one ConfigMap.
const maxPiece = 256 << 10

// piece is the name of a file that is part of a divided one. How many there are
// is in the name for Prometheus' sake: it then takes groups of another division
// for new ones, and keeps what the old ones recorded until these have begun. An
// item that wandered from one group that stays to another would be gone for up
// to an interval.
var piece = regexp.MustCompile(`^(.+)-([0-9]{1,6})-of-[0-9]+\.[a-z.]+$`)

// PieceOf tells of which file a file is a piece, and which one, from 0; ok is
// false for a file that is whole.
func PieceOf(name string) (stem string, number int, ok bool) {
	found := piece.FindStringSubmatch(name)
	if found == nil {
		return "", 0, false
	}
	number, err := strconv.Atoi(found[2])
	return found[1], number, err == nil
}

// Piece is the name of one of so many pieces of a file.
func Piece(stem string, number, of int, ending string) string {
	return fmt.Sprintf("%s-%d-of-%d%s", stem, number, of, ending)
}

// Divide puts items that may be too many for one file into as few files of
// bounded size as a power of two allows, by name: stem and ending where one
// suffices, stem-0-of-n and so on else. What has the same key stays together,
// and where it goes depends on the key and the number of files alone, so that a
// newcomer changes one file. The order of items stays. Size estimates the bytes
// of an item.
func Divide[T any](stem, ending string, items []T, key func(T) string, size func(T) int) map[string][]T {
	total := 0
	for _, item := range items {
		total += size(item)
	}
	if total <= maxPiece {
		return map[string][]T{stem + ending: items}
	}
	n := 2
	for n*maxPiece < total {
		n *= 2
	}
	for ; ; n *= 2 {
		pieces := make([][]T, n)
		sizes, largest := make([]int, n), 0
		for _, item := range items {
			at := bucket(key(item), n)
			pieces[at] = append(pieces[at], item)
			sizes[at] += size(item)
			largest = max(largest, sizes[at])
		}
		if largest > maxPiece && n < len(items) {
			continue
		}
		out := make(map[string][]T, n)
		for i, p := range pieces {
			out[Piece(stem, i, n, ending)] = p
		}
		return out
	}
}

// bucket is the place of a key among n.
func bucket(key string, n int) int {
	sum := sha256.Sum256([]byte(key))
	return int(binary.BigEndian.Uint32(sum[:]) % uint32(n))
}
