package grow

import (
	"encoding/json"
	"fmt"
	"time"
)

// summary is the part of a kubelet's /stats/summary with the usage of claims (kubernetes staging kubelet pkg/apis/stats/v1alpha1).
type summary struct {
	Pods []struct {
		Volumes []struct {
			Claim *struct {
				Namespace string `json:"namespace"`
				Name      string `json:"name"`
			} `json:"pvcRef"`
			Time       time.Time `json:"time"`
			Capacity   *int64    `json:"capacityBytes"`
			Available  *int64    `json:"availableBytes"`
			Used       *int64    `json:"usedBytes"`
			Inodes     *int64    `json:"inodes"`
			InodesFree *int64    `json:"inodesFree"`
		} `json:"volume"`
	} `json:"pods"`
}

// ReadSummary adds the usage of the namespace's claims from a kubelet's summary. It omits volumes without figures, such as raw block
// volumes.
func ReadSummary(body []byte, namespace string, into map[string]Usage) error {
	var parsed summary
	if err := json.Unmarshal(body, &parsed); err != nil {
		return fmt.Errorf("reading the kubelet's summary: %w", err)
	}
	for _, pod := range parsed.Pods {
		for _, v := range pod.Volumes {
			if v.Claim == nil || v.Claim.Namespace != namespace || v.Capacity == nil || v.Available == nil {
				continue
			}
			u := Usage{Capacity: *v.Capacity, Free: *v.Available, MeasuredAt: v.Time}
			if v.Used != nil {
				u.Used = *v.Used
			}
			if v.Inodes != nil && v.InodesFree != nil {
				u.Inodes, u.InodesFree = *v.Inodes, *v.InodesFree
			}
			Add(into, v.Claim.Name, u)
		}
	}
	return nil
}
