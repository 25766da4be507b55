package svg

// A Bar is one figure, with the quartiles of how it varied.
type Bar struct {
	Label           string
	Value, Low, Top float64
	Strong          bool
	Gap             bool // stands apart from the one before
}

// Bars are figures to compare, one below the other. Shorter is better.
type Bars struct {
	Title, Subtitle, Unit string
	Bars                  []Bar
}

// SVG draws them.
func (p Bars) SVG() string {
	const left, right, top, height, gap, width = 200.0, 120.0, 66.0, 24.0, 12.0, 760.0
	most, tall := 0.0, top
	for _, b := range p.Bars {
		most = max(most, b.Top, b.Value)
		tall += height
		if b.Gap {
			tall += gap
		}
	}
	c := newCanvas(width, tall+16, p.Title, p.Subtitle)
	length := func(v float64) float64 { return v / most * (width - left - right) }
	y := top
	for _, b := range p.Bars {
		if b.Gap {
			y += gap
		}
		middle := y + height/2 - 2
		c.label(left-10, middle+4, "end", 13, dark, "normal", b.Label)
		c.add(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`, left, y, length(b.Value), height-5, colourOf(b.Strong))
		end := length(b.Value)
		if b.Low != b.Top {
			c.line(left+length(b.Low), middle, left+length(b.Top), middle, dark, 1.5)
			end = max(end, length(b.Top))
		}
		c.label(left+end+8, middle+4, "start", 13, dark, "bold", number(b.Value)+" "+p.Unit)
		y += height
	}
	return c.String()
}
