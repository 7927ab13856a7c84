package owners

// LoadRegistry returns the built-in table with the rows of the text, which Parse reads.
func LoadRegistry(text string) (Registry, error) {
	rows, err := Parse(text)
	if err != nil {
		return nil, err
	}
	return BuiltIn().With(rows), nil
}
