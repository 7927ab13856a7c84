package check

import (
	"regexp"
	"strings"

	"drydock.dev/shared/api"
)

// namedImage matches a value of DRYDOCK_IMAGE in a command, a manifest or a patch.
var namedImage = regexp.MustCompile(`DRYDOCK_IMAGE["']?\s*[=:]\s*["']?([^\s"',}]+)`)

// checkImages checks each value of DRYDOCK_IMAGE in the text. Tags are right if the text allows them.
func checkImages(c *checker, text string) {
	for i, line := range strings.Split(text, "\n") {
		for _, m := range namedImage.FindAllStringSubmatch(line, -1) {
			checkImage(c, i+1, m[1], strings.Contains(text, "DRYDOCK_ALLOW_TAGS"))
		}
	}
}

// checkImage checks that Drydock accepts the image. On a page, … stands for the digits of a digest.
func checkImage(c *checker, line int, image string, allowTags bool) {
	whole := strings.ReplaceAll(image, "sha256:…", "sha256:"+strings.Repeat("0", 64))
	if fault, _ := api.ImageFault(whole, allowTags); fault != "" && !strings.Contains(image, "$") {
		c.report(line, "image %s", fault)
	}
}
