package notify

import (
	"encoding/json"
	"fmt"
	"strings"
)

// bodyLimit is below the provider's 20,000 bytes, with room for what it may
// count that we do not see.
const bodyLimit = 19_000

// message is one markdown message to a robot.
type message struct {
	MsgType  string       `json:"msgtype"`
	Markdown messageTexts `json:"markdown"`
}

type messageTexts struct {
	Title string `json:"title"`
	Text  string `json:"text"`
}

func newMessage(title, text string) message {
	return message{MsgType: "markdown", Markdown: messageTexts{Title: title, Text: text}}
}

// render turns notifications, oldest first, into at most maxMessages messages
// whose JSON is at most limit bytes. What fires comes before what has ended, and
// the most severe first. It cuts between alerts; only an alert that is too long
// by itself is shortened. Every alert is in exactly one message, with its last
// word; where that is too much, see bounded.
func render(batch []notification, limit int) (messages []message, leftOut int) {
	alerts := firingFirst(lastWords(batch))
	title := titleOf(alerts, missingFrom(batch))
	room := limit - jsonLen(newMessage(title+" (999/999)", ""))
	texts := pack(blocksOf(alerts, batch), room)
	if len(texts) > maxMessages {
		texts, leftOut = bounded(alerts, batch, room)
	}
	for i, text := range texts {
		numbered := title
		if len(texts) > 1 {
			numbered = fmt.Sprintf("%s (%d/%d)", title, i+1, len(texts))
		}
		messages = append(messages, newMessage(numbered, text))
	}
	return messages, leftOut
}

// separator keeps blocks apart in a message.
const separator = "\n\n---\n\n"

func pack(blocks []string, room int) []string {
	var texts []string
	var current strings.Builder
	used := 0
	for _, block := range blocks {
		block = shorten(block, room)
		size := jsonLen(block)
		if used > 0 && used+jsonLen(separator)+size > room {
			texts = append(texts, current.String())
			current.Reset()
			used = 0
		}
		if used > 0 {
			current.WriteString(separator)
			used += jsonLen(separator)
		}
		current.WriteString(block)
		used += size
	}
	return append(texts, current.String())
}

// shorten cuts s between runes so that its JSON is at most room bytes.
func shorten(s string, room int) string {
	if jsonLen(s) <= room {
		return s
	}
	const mark = "…"
	used := jsonLen(mark)
	for i, r := range s {
		used += jsonLen(string(r)) - jsonLen("")
		if used > room {
			return s[:i] + mark
		}
	}
	return s
}

// jsonLen is how many bytes v takes in a body.
func jsonLen(v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and structs of strings always encode
	}
	return len(b)
}
