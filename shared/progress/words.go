package progress

// Words returns the state of the growth: a claim grows, or only gets another VolumeAttributesClass.
func (g Growth) Words() string {
	switch grows := g.To.Cmp(g.From) > 0; {
	case g.Done && grows:
		return "grown"
	case g.Done:
		return "changed"
	case grows:
		return "growing"
	}
	return "changing"
}
