package fit_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"drydock.dev/cmd/kubectl-drydock/fit"
	"drydock.dev/shared/grow"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

const gib = 1 << 30

// in returns the input for set web with two claims of 100Gi. used0 and used1 are their used space in GiB.
func in(used0, used1 int64, change ...func(*fit.Input)) fit.Input {
	i := fit.Input{Set: build.Set("web", build.Replicas(2), build.Template("data", "100Gi", "fixed")), Now: build.Now,
		Headroom: 50, Margin: 10, Usage: map[string]grow.Usage{}}
	for ordinal, used := range []int64{used0, used1} {
		name := fmt.Sprintf("data-web-%d", ordinal)
		c := build.Claim(name, "100Gi")
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("100Gi")}
		i.Claims = append(i.Claims, c)
		i.Usage[name] = grow.Usage{Capacity: 100 * gib, Used: used * gib, Free: (100 - used) * gib, MeasuredAt: build.Now}
	}
	for _, c := range change {
		c(&i)
	}
	return i
}

// TestRowsFitFullestClaim: the fullest claim decides. A template with unknown usage is not shrunk.
func TestRowsFitFullestClaim(t *testing.T) {
	rows := map[string]struct {
		in      fit.Input
		fits    string
		saves   int64
		unknown bool
	}{
		"both are nearly empty":          {in: in(2, 10), fits: "15Gi", saves: 170 * gib},
		"one is half full":               {in: in(2, 52), fits: "78Gi", saves: 44 * gib},
		"one is too full to save enough": {in: in(2, 54)},
		"the new size is below 10Gi":     {in: in(0, 1), fits: "1536Mi", saves: 2 * (100*gib - 3*gib/2)},
		"one is not in use":              {in: in(2, 10, func(i *fit.Input) { delete(i.Usage, "data-web-1") }), unknown: true},
		"the figures are a day old":      {in: in(2, 10, func(i *fit.Input) { i.Now = i.Now.Add(24 * 60 * 60 * 1e9) }), unknown: true},
		"a raw block volume": {in: in(2, 10, func(i *fit.Input) {
			i.Claims[0].Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
		}), unknown: true},
		"the file system uses a tenth of the volume": {in: in(2, 10, func(i *fit.Input) {
			u := i.Usage["data-web-1"]
			u.Capacity, u.Free = 90*gib, 80*gib
			i.Usage["data-web-1"] = u
		}), fits: "17Gi", saves: 166 * gib},
		"half of the inodes are in use": {in: in(2, 10, func(i *fit.Input) {
			u := i.Usage["data-web-1"]
			u.Inodes, u.InodesFree = 1000, 500
			i.Usage["data-web-1"] = u
		}), fits: "75Gi", saves: 50 * gib},
	}
	file := golden.Open(t)
	for _, says := range slices.Sorted(maps.Keys(rows)) {
		row := rows[says]
		t.Run(says, func(t *testing.T) {
			rows := fit.Rows(row.in)
			if len(rows) != 1 || rows[0].Claims != 2 || (rows[0].UnknownReason != "") != row.unknown {
				t.Fatalf("%+v", rows)
			}
			file.Entry(t, says, fmt.Sprintf("fullest: %s\nunknown: %s", rows[0].Fullest, rows[0].UnknownReason))
			fits := ""
			if rows[0].Fits != nil {
				fits = rows[0].Fits.String()
			}
			if fits != row.fits || rows[0].SavedBytes() != row.saves {
				t.Errorf("fits in %q and saves %d, want %q and %d", fits, rows[0].SavedBytes(), row.fits, row.saves)
			}
			if want := "data=" + row.fits; row.fits != "" && fit.Request(rows) != want || row.fits == "" && fit.Request(rows) != "" {
				t.Errorf("request %q", fit.Request(rows))
			}
		})
	}
}

// TestSavingsOfUnequalClaims: an exact size applies to all claims of the template, so it also makes the small ones larger.
func TestSavingsOfUnequalClaims(t *testing.T) {
	for _, small := range []string{"10Gi", "60Gi"} {
		row := fit.Rows(in(20, 2, withSmallClaim(small)))[0]
		size := resource.MustParse(small)
		if saves := 100*gib + size.Value() - 2*30*gib; row.Fits == nil || row.Fits.String() != "30Gi" || row.SavedBytes() != saves {
			t.Errorf("%s: fits in %s and saves %d GiB, want 30Gi and %d", small, row.Fits, row.SavedBytes()/gib, saves/gib)
		}
	}
	if row := fit.Rows(in(35, 2, withSmallClaim("10Gi")))[0]; row.Fits != nil {
		t.Errorf("53Gi for each of two claims saves too little of 110 GiB, and the row suggests %s", row.Fits)
	}
}

// withSmallClaim gives the second claim another size.
func withSmallClaim(size string) func(*fit.Input) {
	return func(i *fit.Input) {
		storage := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		i.Claims[1].Spec.Resources.Requests, i.Claims[1].Status.Capacity = storage, storage
		u := i.Usage["data-web-1"]
		u.Capacity = storage.Storage().Value()
		u.Free = u.Capacity - u.Used
		i.Usage["data-web-1"] = u
	}
}

// TestMoverAcceptsTheFittingSize: the mover refuses a copy unless the used space and the margin, a percentage of the new volume, fit into
// the new volume.
func TestMoverAcceptsTheFittingSize(t *testing.T) {
	for _, margin := range []int64{0, 10, 30} {
		const used = 50 * gib
		row := fit.Rows(in(50, 50, func(i *fit.Input) { i.Headroom, i.Margin = 10, int(margin) }))[0]
		if row.Fits == nil {
			t.Fatalf("margin %d: no size fits", margin)
		}
		if size := row.Fits.Value(); used+size/100*margin > size {
			t.Errorf("margin %d: 50 GiB and %d MiB do not fit into %s", margin, size/100*margin>>20, row.Fits)
		}
	}
}
