package kube

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A list in protobuf is read in chunks: whole items with about chunkBytes together. So a page needs the memory of one chunk, or of its
// largest item, and one request can bring many objects.
const chunkBytes = 256 << 10

// protobufPrefix begins every object in protobuf (kubernetes staging apimachinery pkg/runtime/serializer/protobuf).
var protobufPrefix = []byte("k8s\x00")

// rawField is the number of the field with the object in the message runtime.Unknown, which surrounds it (apimachinery
// pkg/runtime/generated.proto).
const rawField = 2

// Wire types of protobuf that can be in such messages (protobuf.dev/programming-guides/encoding).
const (
	varintType = 0
	bytesType  = 2
)

// chunks calls use with the encoded fields of a list, some at a time, and returns the size of the list. Each piece is a valid encoding of a
// list with some of the items. The slice is valid only during the call.
func chunks(from *bufio.Reader, use func([]byte) error) (size int, err error) {
	if _, err := from.Discard(len(protobufPrefix)); err != nil {
		return 0, err
	}
	length, err := skipToRaw(from)
	if err != nil {
		return 0, fmt.Errorf("reading the envelope of a list: %w", err)
	}
	list := bufio.NewReader(io.LimitReader(from, int64(length)))
	var chunk bytes.Buffer
	for {
		n, err := copyField(&chunk, list)
		size += n
		switch {
		case errors.Is(err, io.EOF) && n == 0:
			if uint64(size) < length {
				return size, io.ErrUnexpectedEOF
			}
			return size, use(chunk.Bytes()) // also if it is empty, so that an empty list is seen
		case err != nil:
			return size, fmt.Errorf("reading an item of a list: %w", err)
		case chunk.Len() >= chunkBytes:
			if err := use(chunk.Bytes()); err != nil {
				return size, err
			}
			chunk.Reset()
		}
	}
}

// skipToRaw reads the envelope up to the object, and returns the object's length.
func skipToRaw(from *bufio.Reader) (length uint64, err error) {
	for {
		key, err := binary.ReadUvarint(from)
		if err != nil {
			return 0, unexpected(err)
		}
		if key&7 != bytesType {
			return 0, fmt.Errorf("a field has type %d", key&7)
		}
		if length, err = binary.ReadUvarint(from); err != nil {
			return 0, unexpected(err)
		}
		if key>>3 == rawField {
			return length, nil
		}
		if _, err := io.CopyN(io.Discard, from, int64(length)); err != nil {
			return 0, unexpected(err)
		}
	}
}

// copyField copies one field with its key, and returns its size. At the end it returns io.EOF and 0.
func copyField(to *bytes.Buffer, from *bufio.Reader) (size int, err error) {
	before := to.Len()
	key, err := copyVarint(to, from)
	if err != nil {
		return to.Len() - before, err
	}
	length, err := copyVarint(to, from)
	if err != nil {
		return to.Len() - before, unexpected(err)
	}
	switch key & 7 {
	case varintType:
	case bytesType:
		_, err = io.CopyN(to, from, int64(length))
	default:
		err = fmt.Errorf("a field has type %d", key&7)
	}
	return to.Len() - before, unexpected(err)
}

func copyVarint(to *bytes.Buffer, from *bufio.Reader) (uint64, error) {
	n, err := binary.ReadUvarint(from)
	if err != nil {
		return 0, err
	}
	to.Write(binary.AppendUvarint(nil, n))
	return n, nil
}

// unexpected returns the error for an end in the middle of a message.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
