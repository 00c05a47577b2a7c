package browser

import (
	"fmt"
	"image"
)

// Pictures are compared in cells, each with the average color of its pixels. Differences between two machines, such as the smoothing of letters,
// hardly change the average. A changed text, color or position does.
const (
	// cell is the width and height of a cell in pixels: about two letters.
	cell = 16
	// visible is the minimum difference of a color of a cell, between 0 and 255, that a person can see.
	visible = 12
	// tolerated is the number of cells that may differ. A shift by less than a pixel changes one cell, a changed heading nine or more, another font
	// 38.
	tolerated = 1
)

// Differs describes the visible differences between two pictures; it returns "" if there are none.
func Differs(one, other image.Image) string {
	size := one.Bounds().Size()
	if other.Bounds().Size() != size {
		return fmt.Sprintf("one has the size %s, the other %s", size, other.Bounds().Size())
	}
	found, different := 0, image.Rectangle{}
	for y := 0; y < size.Y; y += cell {
		for x := 0; x < size.X; x += cell {
			area := image.Rect(x, y, min(x+cell, size.X), min(y+cell, size.Y))
			a, b := average(one, area), average(other, area)
			for i := range a {
				if a[i]-b[i] > visible || b[i]-a[i] > visible {
					found++
					different = different.Union(area)
					break
				}
			}
		}
	}
	if found <= tolerated {
		return ""
	}
	return fmt.Sprintf("%d cells of %d x %[2]d pixels differ, within %s", found, cell, different)
}

// average returns the average red, green and blue in an area. The coordinates count from the upper left corner.
func average(picture image.Image, area image.Rectangle) [3]float64 {
	var sum [3]float64
	origin := picture.Bounds().Min
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			r, g, b, _ := picture.At(origin.X+x, origin.Y+y).RGBA()
			sum[0], sum[1], sum[2] = sum[0]+float64(r>>8), sum[1]+float64(g>>8), sum[2]+float64(b>>8)
		}
	}
	for i := range sum {
		sum[i] /= float64(area.Dx() * area.Dy())
	}
	return sum
}
