package bounded

import (
	"bytes"
	"errors"
	"fmt"
)

// smallElement is a lower limit for the average size of the elements of all lists in a document, in bytes, apart from the first
// fewElements. A list of numbers or of empty objects has two or three bytes an element, and the decoder makes a whole struct of each,
// also where it then reports that the type is wrong. The structs of Kubernetes have up to a kilobyte.
const (
	smallElement = 24
	fewElements  = 256
)

// checkElements returns an error if the lists of the JSON text have more elements than any ordinary object of that size, or if one is null.
// Neither Kubernetes nor Drydock writes a null into a list. Text that is no JSON has any result; the decoder reports it.
func checkElements(text []byte) error {
	var lists []bool // for each open bracket, whether it is a list
	elements, begins := 0, false
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
			continue
		}
		if begins && c != ']' {
			if elements++; c == 'n' {
				return errors.New("the document has null as an element of a list; remove it")
			}
		}
		begins = false
		switch c {
		case '"':
			i = endOfString(text, i)
		case '[', '{':
			lists = append(lists, c == '[')
			begins = c == '['
		case ']', '}':
			lists = lists[:max(len(lists)-1, 0)]
		case ',':
			begins = len(lists) > 0 && lists[len(lists)-1]
		}
	}
	if elements > fewElements+len(text)/smallElement {
		return fmt.Errorf("the lists of the document have %d elements in %d bytes, more than in any ordinary object; shorten them", elements,
			len(text))
	}
	return nil
}

// endOfString returns the index of the quote that ends the string, or the last index of the text.
func endOfString(text []byte, start int) int {
	for i := start + 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(text) - 1
}

// harmless reports whether resource.ParseQuantity is fast for every value of the JSON text. The text then has no number with an exponent of
// three digits, no number with more than longestNumber digits, and no escape that could hide one. This is much cheaper than a check of each
// value, and true for almost every object of a cluster.
func harmless(text []byte) bool {
	digits := 0
	for i, c := range text {
		switch kinds[c] {
		case other:
			digits = 0
		case digit:
			if digits++; digits > longestNumber {
				return false
			}
		case exponent:
			if digits > 0 && startsValue(text[:i-digits]) && largeExponent(text[i+1:]) {
				return false
			}
			digits = 0
		case escape:
			if escapesDigit(text[i+1:]) {
				return false
			}
			digits = 0
		}
	}
	return true
}

// kind is the meaning of a byte for harmless. harmless reads every byte of every event, so kinds is a table, which is the fastest way.
type kind uint8

const (
	other kind = iota
	digit
	exponent
	escape
)

var kinds = func() (kinds [256]kind) {
	for c := range kinds {
		if isDigit(byte(c)) {
			kinds[c] = digit
		}
	}
	kinds['e'], kinds['E'], kinds['\\'] = exponent, exponent, escape
	return kinds
}()

const longestNumber = 40

func isDigit(c byte) bool { return '0' <= c && c <= '9' || c == '.' }

// startsValue reports whether a number after the text is a value or the beginning of a value, and not the end of a word.
func startsValue(before []byte) bool {
	before = bytes.TrimRight(before, "+-")
	return len(before) == 0 || bytes.IndexByte([]byte("\":,[ \t\r\n"), before[len(before)-1]) >= 0
}

func largeExponent(after []byte) bool {
	after = bytes.TrimLeft(after, "+-")
	return len(after) >= 3 && isDigit(after[0]) && isDigit(after[1]) && isDigit(after[2])
}

// escapesDigit reports whether an escape stands for a character of a number: 0 to 9, +, -, ., E or e.
func escapesDigit(after []byte) bool {
	if len(after) < 5 || after[0] != 'u' || after[1] != '0' || after[2] != '0' {
		return false
	}
	switch after[3] {
	case '3':
		return isDigit(after[4])
	case '2':
		return bytes.IndexByte([]byte("bBdDeE"), after[4]) >= 0
	case '4', '6':
		return after[4] == '5'
	}
	return false
}
