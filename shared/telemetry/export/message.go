package export

import (
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	"google.golang.org/protobuf/encoding/protowire"
)

// message is a protobuf message under construction. The field numbers are those of opentelemetry-proto v1.10.0, whose
// messages are stable. As in proto3, a field with its zero value is left out. Fields are written in the order of their
// numbers.
type message []byte

func (m *message) bytes(number protowire.Number, value []byte) {
	if len(value) > 0 {
		m.embed(number, value)
	}
}

func (m *message) text(number protowire.Number, value string) { m.bytes(number, []byte(value)) }

// embed puts a message into a field, also an empty one.
func (m *message) embed(number protowire.Number, value message) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, number, protowire.BytesType), value)
}

func (m *message) varint(number protowire.Number, value uint64) {
	if value != 0 {
		*m = protowire.AppendVarint(protowire.AppendTag(*m, number, protowire.VarintType), value)
	}
}

// fixed64 also writes a zero value: in a oneof or an optional field zero is meaningful.
func (m *message) fixed64(number protowire.Number, value uint64) {
	*m = protowire.AppendFixed64(protowire.AppendTag(*m, number, protowire.Fixed64Type), value)
}

func (m *message) fixed32(number protowire.Number, value uint32) {
	*m = protowire.AppendFixed32(protowire.AppendTag(*m, number, protowire.Fixed32Type), value)
}

func (m *message) double(number protowire.Number, value float64) {
	m.fixed64(number, math.Float64bits(value))
}

func (m *message) time(number protowire.Number, value time.Time) {
	if !value.IsZero() {
		m.fixed64(number, uint64(value.UnixNano())) //nolint:gosec // after 1970
	}
}

// attributes puts KeyValues into a repeated field.
func (m *message) attributes(number protowire.Number, list []attribute.KeyValue) {
	for _, a := range list {
		var pair message
		pair.text(1, string(a.Key))
		pair.embed(2, anyValue(a.Value))
		m.embed(number, pair)
	}
}

// anyValue returns an AnyValue. Its field shows the type, so it is also written for a zero value.
func anyValue(v attribute.Value) message {
	var m message
	switch v.Type() {
	case attribute.STRING:
		m.embed(1, message(v.AsString()))
	case attribute.BOOL:
		m = protowire.AppendVarint(protowire.AppendTag(m, 2, protowire.VarintType), protowire.EncodeBool(v.AsBool()))
	case attribute.INT64:
		m = protowire.AppendVarint(protowire.AppendTag(m, 3, protowire.VarintType), uint64(v.AsInt64())) //nolint:gosec // two's complement, as the wire has it
	case attribute.FLOAT64:
		m.double(4, v.AsFloat64())
	default:
		m.embed(5, arrayValue(v))
	}
	return m
}

func arrayValue(v attribute.Value) message {
	var m message
	put := func(element attribute.Value) { m.embed(1, anyValue(element)) }
	switch v.Type() {
	case attribute.STRINGSLICE:
		for _, e := range v.AsStringSlice() {
			put(attribute.StringValue(e))
		}
	case attribute.BOOLSLICE:
		for _, e := range v.AsBoolSlice() {
			put(attribute.BoolValue(e))
		}
	case attribute.INT64SLICE:
		for _, e := range v.AsInt64Slice() {
			put(attribute.Int64Value(e))
		}
	case attribute.FLOAT64SLICE:
		for _, e := range v.AsFloat64Slice() {
			put(attribute.Float64Value(e))
		}
	}
	return m
}

func resourceMessage(r *resource.Resource) message {
	var m message
	m.attributes(1, r.Attributes())
	return m
}

func scopeMessage(s instrumentation.Scope) message {
	var m message
	m.text(1, s.Name)
	m.text(2, s.Version)
	m.attributes(3, s.Attributes.ToSlice())
	return m
}
