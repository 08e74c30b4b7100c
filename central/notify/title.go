package notify

import (
	"fmt"
	"strings"

	"github.com/prometheus/alertmanager/template"
)

const (
	// titleLimit is in bytes of JSON; a phone shows the beginning.
	titleLimit = 200
	// nameLimit keeps one long name from pushing the others out of the title.
	nameLimit = 50
)

// titleOf says what a person must know before opening the message: of the alerts
// given, firing and most severe first, the first one, and how many more there are.
// Alertmanager itself has left out so many as are missing.
func titleOf(alerts []template.Alert, missing int) string {
	first := alerts[0]
	severity := first.Labels["severity"]
	if severity == "" {
		severity = "no severity"
	}
	what := titlePart(first.Labels["alertname"])
	if place := placeOf(first.Labels); place != "" {
		what = place + " — " + what
	}
	head := fmt.Sprintf("[%s] %s: %s", strings.ToUpper(first.Status), titlePart(severity), what)
	others := othersOf(alerts, missing)
	return shorten(head, titleLimit-jsonLen(others)+jsonLen("")) + others
}

func othersOf(alerts []template.Alert, missing int) string {
	same, ended := missing-1, 0
	for _, a := range alerts {
		if a.Status == alerts[0].Status {
			same++
		} else {
			ended++
		}
	}
	var others []string
	if same > 0 {
		others = append(others, fmt.Sprintf("%d more", same))
	}
	if ended > 0 {
		others = append(others, fmt.Sprintf("%d resolved", ended))
	}
	if len(others) == 0 {
		return ""
	}
	return ", and " + strings.Join(others, ", ")
}

// placeOf names the narrowest thing that the labels know, and where it is.
func placeOf(labels template.KV) string {
	var place string
	for _, key := range []string{"node", "rack", "zone", "cluster", "cell", "region", "geography", "central"} {
		if value := labels[key]; value != "" {
			place = key + " " + titlePart(value)
			if of := labels["cluster"]; of != "" && (key == "node" || key == "rack" || key == "zone") {
				place += " of " + titlePart(of)
			}
			if in := labels["cell"]; in != "" && key != "cell" {
				place += " in " + titlePart(in)
			}
			break
		}
	}
	return place
}

// titlePart makes a foreign name fit for a title.
func titlePart(s string) string { return shorten(oneLine(s), nameLimit) }
