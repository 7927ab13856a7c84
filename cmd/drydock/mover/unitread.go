//go:build linux

package mover

import "context"

// pieceUnits is how many units are read from the source at once.
const pieceUnits = 16

// unitPiece is a piece of the source that was read.
type unitPiece struct {
	first int // unit
	data  []byte
}

var unitBuffers bufferPool[[pieceUnits * unitSize]byte]

// readPieces reads the source in order. Holes are not read, if they are whole units. The receiver of a piece releases it.
//
// A preallocated range may be in memory, and so data, when updateLayout searches for holes, and a hole now. Its units are read, too.
func (p *unitPatch) readPieces(ctx context.Context, pieces chan<- unitPiece) error {
	size, end := p.e.meta.size, int64(0)
	search := func(off, size int64) (from, to int64, err error) {
		if from, to, err = seekData(p.in, off, size); err != nil {
			err = p.at.fault(source, "reading", p.e, err)
		}
		return from, to, err
	}
	readUnnoted := func(to int64) error {
		for ; end < to; end += unitSize {
			if p.want[end/unitSize] == (sum{}) {
				if err := p.readRun(ctx, end, min(end+unitSize, size), pieces); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err := eachUnitRun(size, search, func(from, to int64) error {
		if err := readUnnoted(from); err != nil {
			return err
		}
		end = to
		return p.readRun(ctx, from, to, pieces)
	})
	if err != nil {
		return err
	}
	return readUnnoted(size)
}

func (p *unitPatch) readRun(ctx context.Context, from, to int64, pieces chan<- unitPiece) error {
	next := readAhead{p.in, from, to}
	for from < to {
		next.advance(from)
		if err := context.Cause(ctx); err != nil {
			return err
		}
		buf := unitBuffers.Get()
		piece := unitPiece{first: int(from / unitSize), data: buf[:min(to-from, int64(len(buf)))]}
		if err := readFull(p.in, piece.data, from); err != nil {
			return p.at.fault(source, "reading", p.e, err)
		}
		n := int64(len(piece.data))
		pieces <- piece
		p.c.meter.bytes.Add(n)
		p.c.limit.wait(ctx, n)
		from += n
	}
	return nil
}

func (u unitPiece) release() { unitBuffers.Put((*[pieceUnits * unitSize]byte)(u.data[:cap(u.data)])) }

// unit returns a unit of the piece, or nil after the last.
func (u unitPiece) unit(i int) []byte {
	if from := i * unitSize; from < len(u.data) {
		return u.data[from:min(from+unitSize, len(u.data))]
	}
	return nil
}
