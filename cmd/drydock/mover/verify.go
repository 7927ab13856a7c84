//go:build linux

package mover

import "context"

// verify reads both trees, compares them and collects the differences.
func (c *copier) verify(ctx context.Context) error {
	s := c.newHasher()
	if err := s.run(ctx, c.workers); err != nil {
		return err
	}
	if err := c.problems.collect(c.verifyRoot()); err != nil {
		return err
	}
	if err := c.problems.err(); err != nil {
		return err
	}
	a, b := s.digest(source), s.digest(target)
	if a != b { // impossible unless the comparison is broken
		return &fault{target, "comparing", "", mismatch("its digest is " + b + ", not " + a)}
	}
	c.digest = a
	return nil
}
