package gateway

// Paths of the API (sablierapp/sablier internal/api/start_dynamic.go, start_blocking.go, start_poke.go, instance_events.go,
// theme_list.go, health.go). The list of themes moved twice, and old clients use the old paths.
const (
	pathDynamic  = "/api/strategies/dynamic"
	pathBlocking = "/api/strategies/blocking"
	pathPoke     = "/api/strategies/poke"
	pathEvents   = "/api/events"
	pathHealth   = "/health"
	pathVersion  = "/version"
)

var pathsThemes = []string{"/api/themes", "/api/dynamic/themes", "/api/strategies/dynamic/themes"}
