package main

import (
	"strings"
	"testing"
)

func TestDetailsArePrintedAndNotInTheDocument(t *testing.T) {
	s := section{title: "Reads", rows: []row{{what: "median"}, row{what: "p99"}.detailIf(true)}}
	if document := s.markdown(); !strings.Contains(document, "median") || strings.Contains(document, "p99") {
		t.Errorf("the document has\n%s", document)
	}
	var printed strings.Builder
	if err := printTable(&printed, []section{s}); err != nil || !strings.Contains(printed.String(), "p99") {
		t.Errorf("printed %q, %v", printed.String(), err)
	}
}
