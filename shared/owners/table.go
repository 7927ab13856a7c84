package owners

import (
	"slices"
	"strings"
)

// BuiltIn returns the table that Drydock comes with.
func BuiltIn() Registry { return slices.Clone(table) }

// table lists each kind with its plural, because the RBAC rules are made from it: a wildcard would allow all kinds.
//
// A row has a stop only if the operator scales the StatefulSets to zero and keeps them. Operators that do not create or scale
// StatefulSets have no row.
var table = Registry{
	// Each kind has its own key. The project's documentation writes them with capitals, as in redisCluster, but an
	// annotation's prefix is a DNS name, and the code has them in lower case.
	{
		Operator: "redis-operator", Group: "redis.redis.opstreelabs.in", Kinds: kinds("Redis", "redis"),
		Pause:  []Setting{annotation("redis.opstreelabs.in/skip-reconcile", "true")},
		Source: "internal/controller/common/skip_reconcile.go in OT-CONTAINER-KIT/redis-operator",
	},
	{
		Operator: "redis-operator", Group: "redis.redis.opstreelabs.in", Kinds: kinds("RedisCluster", "redisclusters"),
		Pause:  []Setting{annotation("rediscluster.opstreelabs.in/skip-reconcile", "true")},
		Source: "internal/controller/common/skip_reconcile.go in OT-CONTAINER-KIT/redis-operator",
	},
	{
		Operator: "redis-operator", Group: "redis.redis.opstreelabs.in",
		Kinds:  kinds("RedisReplication", "redisreplications"),
		Pause:  []Setting{annotation("redisreplication.opstreelabs.in/skip-reconcile", "true")},
		Source: "internal/controller/common/skip_reconcile.go in OT-CONTAINER-KIT/redis-operator",
	},
	{
		Operator: "redis-operator", Group: "redis.redis.opstreelabs.in", Kinds: kinds("RedisSentinel", "redissentinels"),
		Pause:  []Setting{annotation("redissentinel.opstreelabs.in/skip-reconcile", "true")},
		Source: "internal/controller/common/skip_reconcile.go in OT-CONTAINER-KIT/redis-operator",
	},
	{
		Operator: "rabbitmq", Group: "rabbitmq.com", Kinds: kinds("RabbitmqCluster", "rabbitmqclusters"),
		Pause:  []Setting{label("rabbitmq.com/pauseReconciliation", "true")},
		Stop:   []Setting{field("spec.replicas", zeroReplicas)}, // since 2.16; back up it takes no other number than the one before
		Source: "internal/controller/rabbitmqcluster_controller.go and reconcile_scale_zero.go in rabbitmq/cluster-operator",
	},
	eck("elasticsearch.k8s.elastic.co", "Elasticsearch", "elasticsearches"),
	eck("logstash.k8s.elastic.co", "Logstash", "logstashes"),
	eck("agent.k8s.elastic.co", "Agent", "agents"), // it runs as a StatefulSet if spec.statefulSet is there
	{
		Operator: "pgo", Group: "postgres-operator.crunchydata.com", Kinds: kinds("PostgresCluster", "postgresclusters"),
		Pause:  []Setting{field("spec.paused", true)},
		Stop:   []Setting{field("spec.shutdown", true)},
		Source: "postgrescluster_types.go, controller.go and instance.go in CrunchyData/postgres-operator",
	},
	// The PerconaPGCluster copies its spec.unmanaged to the PostgresCluster's spec.paused, so a pause made there is lost.
	// What Percona's operators call pause is a stop.
	{
		Operator: "percona-pg", Group: "upstream.pgv2.percona.com", Kinds: kinds("PostgresCluster", "postgresclusters"),
		Up:     true,
		Source: "perconapgcluster_types.go in percona/percona-postgresql-operator",
	},
	{
		Operator: "percona-pg", Group: "pgv2.percona.com", Kinds: kinds("PerconaPGCluster", "perconapgclusters"),
		Pause:  []Setting{field("spec.unmanaged", true)},
		Stop:   []Setting{field("spec.pause", true)},
		Source: "perconapgcluster_types.go in percona/percona-postgresql-operator",
	},
	{
		Operator: "percona-pxc", Group: "pxc.percona.com", Kinds: kinds("PerconaXtraDBCluster", "perconaxtradbclusters"),
		Stop:   []Setting{field("spec.pause", true)},
		Source: "pxc_types.go in percona/percona-xtradb-cluster-operator",
	},
	// Its spec.unmanaged is no pause, but for a cluster that another site leads. A stop waits for backups that run.
	{
		Operator: "percona-psmdb", Group: "psmdb.percona.com", Kinds: kinds("PerconaServerMongoDB", "perconaservermongodbs"),
		Stop:   []Setting{field("spec.pause", true)},
		Source: "psmdb_types.go and psmdb_controller.go in percona/percona-server-mongodb-operator",
	},
	{
		Operator: "percona-ps", Group: "ps.percona.com", Kinds: kinds("PerconaServerMySQL", "perconaservermysqls"),
		Stop:   []Setting{field("spec.pause", true)},
		Source: "perconaservermysql_types.go in percona/percona-server-mysql-operator",
	},
	// An operator with a min_instances above 0 keeps that many, unless the postgresql has the key that it is told to look
	// for. It has no pause: a foreign controller id only makes it forget the cluster, and another operator may have that id.
	{
		Operator: "zalando-postgres", Group: "acid.zalan.do", Kinds: kinds("postgresql", "postgresqls"),
		Stop:   []Setting{field("spec.numberOfInstances", zeroReplicas)},
		Source: "getNumberOfInstances in pkg/cluster/k8sres.go in zalando/postgres-operator",
	},
	{
		Operator: "cass-operator", Group: "cassandra.datastax.com", Kinds: kinds("CassandraDatacenter", "cassandradatacenters"),
		Stop:   []Setting{field("spec.stopped", true)},
		Source: "cassandradatacenter_types.go in k8ssandra/cass-operator",
	},
	{
		Operator: "k8ssandra", Group: "k8ssandra.io", Kinds: kinds("K8ssandraCluster", "k8ssandraclusters"),
		Stop:   []Setting{field("spec.cassandra.datacenters[*].stopped", true)},
		Source: "k8ssandracluster_types.go in k8ssandra/k8ssandra-operator",
	},
	// MaxScale is left out, because its suspension is behind a feature flag.
	{
		Operator: "mariadb-operator", Group: "k8s.mariadb.com", Kinds: kinds("MariaDB", "mariadbs"),
		Pause:  []Setting{field("spec.suspend", true)},
		Source: "docs/suspend.md and internal/controller/mariadb_controller.go in mariadb-operator/mariadb-operator",
	},
	{
		Operator: "prometheus-operator", Group: "monitoring.coreos.com",
		Kinds: kinds("Prometheus", "prometheuses", "PrometheusAgent", "prometheusagents",
			"Alertmanager", "alertmanagers", "ThanosRuler", "thanosrulers"),
		Pause:  []Setting{field("spec.paused", true)},
		Stop:   []Setting{field("spec.replicas", zeroReplicas)}, // of each shard
		Source: "pkg/prometheus/server/operator.go and statefulset.go in prometheus-operator/prometheus-operator",
	},
	// VMSingle, VLSingle, VTSingle, VMAlert and VMAuth are left out, because they are Deployments.
	{
		Operator: "victoria-metrics", Group: "operator.victoriametrics.com",
		Kinds: kinds("VMCluster", "vmclusters", "VMAgent", "vmagents", "VMAlertmanager", "vmalertmanagers",
			"VMAnomaly", "vmanomalies", "VLCluster", "vlclusters", "VLAgent", "vlagents",
			"VTCluster", "vtclusters", "VTAgent", "vtagents"),
		Pause:  []Setting{field("spec.paused", true)},
		Source: "internal/controller/operator/controllers.go in VictoriaMetrics/operator",
	},
	// TargetAllocator has the same field and is left out, because it is a Deployment.
	{
		Operator: "opentelemetry", Group: "opentelemetry.io",
		Kinds:  kinds("OpenTelemetryCollector", "opentelemetrycollectors"),
		Pause:  []Setting{field("spec.managementState", "unmanaged")},
		Source: "apis/v1beta1/common.go in open-telemetry/opentelemetry-operator",
	},
	// This is TiDB's operator of version 1. Version 2 has the group core.pingcap.com and makes pods. Its spec.suspendAction is
	// no stop: it deletes the StatefulSets (pkg/manager/suspender/suspender.go).
	{
		Operator: "tidb", Group: "pingcap.com", Kinds: kinds("TidbCluster", "tidbclusters", "DMCluster", "dmclusters"),
		Pause:  []Setting{field("spec.paused", true)},
		Source: "pkg/apis/pingcap/v1alpha1/types.go, branch release-1.6, in pingcap/tidb-operator",
	},
	{
		Operator: "clickhouse-altinity", Group: "clickhouse.altinity.com",
		Kinds:  kinds("ClickHouseInstallation", "clickhouseinstallations"),
		Pause:  []Setting{field("spec.suspend", "yes")}, // not a bool, because older definitions allow only words
		Stop:   []Setting{field("spec.stop", "yes")},
		Source: "type_spec.go, type_chi.go and pkg/controller/chi/controller.go in Altinity/clickhouse-operator",
	},
	// The keeper's definition has no stop.
	{
		Operator: "clickhouse-altinity", Group: "clickhouse-keeper.altinity.com",
		Kinds:  kinds("ClickHouseKeeperInstallation", "clickhousekeeperinstallations"),
		Pause:  []Setting{field("spec.suspend", "yes")},
		Source: "pkg/controller/chk/controller.go in Altinity/clickhouse-operator",
	},
	// The Spark history server is left out, because it has no cluster operation, and OPA, because it is a DaemonSet.
	stackable("airflow", "AirflowCluster", "airflowclusters", "spec"),
	stackable("druid", "DruidCluster", "druidclusters", "spec"),
	stackable("hbase", "HbaseCluster", "hbaseclusters", "spec"),
	stackable("hdfs", "HdfsCluster", "hdfsclusters", "spec"),
	stackable("hive", "HiveCluster", "hiveclusters", "spec"),
	stackable("kafka", "KafkaCluster", "kafkaclusters", "spec"),
	stackable("nifi", "NifiCluster", "nificlusters", "spec"),
	stackable("opensearch", "OpenSearchCluster", "opensearchclusters", "spec"),
	stackable("superset", "SupersetCluster", "supersetclusters", "spec.clusterConfig"), // only here it is deeper
	stackable("trino", "TrinoCluster", "trinoclusters", "spec"),
	stackable("zookeeper", "ZookeeperCluster", "zookeeperclusters", "spec"),
	{
		Operator: "stackgres", Group: "stackgres.io", Kinds: kinds("SGCluster", "sgclusters"),
		Pause:  []Setting{annotation("stackgres.io/reconciliation-pause", "true")},
		Source: "conciliation/ReconciliationUtil.java in ongres/stackgres",
	},
	// The clustering manager runs on when reconciliation is stopped, and would act on the missing members.
	{
		Operator: "moco", Group: "moco.cybozu.com", Kinds: kinds("MySQLCluster", "mysqlclusters"),
		Pause: []Setting{
			annotation("moco.cybozu.com/reconciliation-stopped", "true"),
			annotation("moco.cybozu.com/clustering-stopped", "true"),
		},
		Stop:   []Setting{field("spec.offline", true)},
		Source: "docs/designdoc/clustering_stop.md and controllers/mysqlcluster_controller.go in cybozu-go/moco",
	},
	// A webhook denies edits of the StatefulSet, also to us, unless the protection is off.
	{
		Operator: "etcd-druid", Group: "druid.gardener.cloud", Kinds: kinds("Etcd", "etcds"),
		Pause: []Setting{
			present("druid.gardener.cloud/suspend-etcd-spec-reconcile"),
			present("druid.gardener.cloud/disable-etcd-component-protection"),
		},
		Source: "api/core/v1alpha1/helper.go and docs/usage/managing-etcd-clusters.md in gardener/etcd-druid",
	},
	{
		Operator: "redpanda", Group: "cluster.redpanda.com", Kinds: kinds("Redpanda", "redpandas"),
		Pause:  []Setting{annotation("cluster.redpanda.com/managed", "false")},
		Source: "operator/pkg/feature/flags.go in redpanda-data/redpanda-operator",
	},
	splunk("ClusterManager", "clustermanagers"),
	// The ClusterMaster's controller asks for the ClusterManager's key, while the documentation names its own.
	splunk("ClusterMaster", "clustermasters", present("clustermanager.enterprise.splunk.com/paused")),
	splunk("IndexerCluster", "indexerclusters"),
	splunk("IngestorCluster", "ingestorclusters"),
	splunk("LicenseManager", "licensemanagers"),
	splunk("LicenseMaster", "licensemasters"),
	splunk("MonitoringConsole", "monitoringconsoles"),
	splunk("SearchHeadCluster", "searchheadclusters"),
	splunk("Standalone", "standalones"),
	{
		Operator: "cockroachdb", Group: "crdb.cockroachlabs.com", Kinds: kinds("CrdbCluster", "crdbclusters"),
		Pause:  []Setting{label("crdb.io/skip-reconcile", "true")},
		Source: "apis/v1alpha1/cluster_types.go and pkg/controller/cluster_controller.go in cockroachdb/cockroach-operator",
	},
	{
		Operator: "risingwave", Group: "risingwave.risingwavelabs.com", Kinds: kinds("RisingWave", "risingwaves"),
		Pause:  []Setting{present("risingwave.risingwavelabs.com/pause-reconcile")},
		Source: "pkg/controller/risingwave_controller.go in risingwavelabs/risingwave-operator",
	},
	{
		Operator: "druid", Group: "druid.apache.org", Kinds: kinds("Druid", "druids"),
		Pause:  []Setting{annotation("druid.apache.org/ignored", "true")},
		Source: "controllers/druid/predicates.go in datainfrahq/druid-operator",
	},
	// Gateway and USMAgent are left out, because it is not known that they are StatefulSets.
	{
		Operator: "confluent", Group: "platform.confluent.io",
		Kinds: kinds("Connect", "connects", "ControlCenter", "controlcenters", "Kafka", "kafkas",
			"KafkaRestProxy", "kafkarestproxies", "KRaftController", "kraftcontrollers", "KsqlDB", "ksqldbs",
			"SchemaRegistry", "schemaregistries", "Zookeeper", "zookeepers"),
		Pause:  []Setting{annotation("platform.confluent.io/block-reconcile", "true")},
		Source: "kubectl confluent block-reconcile in the documentation of Confluent for Kubernetes",
	},
	// Of MongoDB's kinds only this one can be paused. Its plural is the singular.
	{
		Operator: "mongodb-search", Group: "mongodb.com", Kinds: kinds("MongoDBSearch", "mongodbsearch"),
		Pause:  []Setting{annotation("mongodb.com/disable-reconciliation", "true")},
		Source: "mongodbsearch_types.go in mongodb/mongodb-kubernetes",
	},
	// Scaled to 0 it shuts down gracefully, and takes back no other number than the one before.
	{
		Operator: "infinispan", Group: "infinispan.org", Kinds: kinds("Infinispan", "infinispans"),
		Stop:   []Setting{field("spec.replicas", zeroReplicas)},
		Source: "handler/manage/upgrades.go in infinispan/infinispan-operator",
	},
	// Its hibernation is no stop: it deletes the StatefulSet.
	{
		Operator: "ibm-datapower", Group: "datapower.ibm.com", Kinds: kinds("DataPowerService", "datapowerservices"),
		Stop:   []Setting{annotation("datapower.ibm.com/stop", "true")},
		Source: "features/annotations in the documentation of the IBM DataPower Operator",
	},
	// The operator itself writes the time, and asks only for the key.
	{
		Operator: "kubeflow-notebooks", Group: "kubeflow.org", Kinds: kinds("Notebook", "notebooks"),
		Stop:   []Setting{present("kubeflow-resource-stopped")},
		Source: "components/notebook-controller/controllers/culling_controller.go in kubeflow/kubeflow",
	},
	// KEDA creates no StatefulSets. It scales those of others, and would scale one up that is to be at zero. A pause stops
	// that; paused-replicas is not written, because it is a number to scale to. Without traffic KEDA scales to zero as soon as it
	// is resumed, so it is resumed when the set is ready.
	{
		Operator: "keda", Group: "keda.sh", Kinds: kinds("ScaledObject", "scaledobjects"),
		Pause:  []Setting{annotation("autoscaling.keda.sh/paused", "true")},
		Resume: AtReady,
		Source: "apis/keda/v1alpha1/scaledobject_types.go in kedacore/keda",
	},
	// Off: not everything is a StatefulSet there, newer versions have PetSets of their own, and what is halted is deleted
	// but for its claims.
	{
		Operator: "kubedb", Group: "kubedb.com",
		Kinds: kinds("Elasticsearch", "elasticsearches", "MariaDB", "mariadbs", "MongoDB", "mongodbs", "MySQL", "mysqls",
			"PerconaXtraDB", "perconaxtradbs", "Postgres", "postgreses", "Redis", "redises", "RedisSentinel", "redissentinels"),
		Stop:   []Setting{field("spec.halted", true)},
		Off:    true,
		Source: "apis/kubedb/v1 in kubedb/apimachinery",
	},
}

// zeroReplicas is the replica count of a stopped operator.
const zeroReplicas = int64(0)

// eck returns a row of Elastic's operator with both keys. Before 3.5, the operator ignores pause-orchestration. Since 3.5, managed is
// deprecated but still works. The operator's webhook checks only the value of the new key.
func eck(group, kind, plural string) Row {
	return Row{
		Operator: "eck", Group: group, Kinds: kinds(kind, plural),
		Pause: []Setting{
			annotation("eck.k8s.elastic.co/pause-orchestration", "true"),
			annotation("eck.k8s.elastic.co/managed", "false"),
		},
		Source: "pkg/controller/common/pause_orchestration.go and unmanaged.go in elastic/cloud-on-k8s",
	}
}

// stackable returns a row of Stackable's operator for the product. The cluster operation is a field below parent.
func stackable(product, kind, plural, parent string) Row {
	return Row{
		Operator: "stackable", Group: product + ".stackable.tech", Kinds: kinds(kind, plural),
		Pause: []Setting{field(parent+".clusterOperation.reconciliationPaused", true)},
		Stop:  []Setting{field(parent+".clusterOperation.stopped", true)},
		Source: "commons/cluster_operation.rs and cluster_resources.rs in stackabletech/operator-rs, " +
			"rust/operator-binary/src/crd/mod.rs in stackabletech/" + product + "-operator",
	}
}

// splunk returns a row of Splunk's operator, which has a key for each kind.
func splunk(kind, plural string, more ...Setting) Row {
	key := strings.ToLower(kind) + ".enterprise.splunk.com/paused"
	return Row{
		Operator: "splunk", Group: "enterprise.splunk.com", Kinds: kinds(kind, plural),
		Pause:  append([]Setting{present(key)}, more...),
		Source: "api/*/" + strings.ToLower(kind) + "_types.go and internal/controller in splunk/splunk-operator",
	}
}

// kinds returns kinds from alternating names and plurals.
func kinds(pairs ...string) []Kind {
	var out []Kind
	for pair := range slices.Chunk(pairs, 2) {
		out = append(out, Kind{Name: pair[0], Plural: pair[1]})
	}
	return out
}

func annotation(key, value string) Setting { return Setting{In: Annotation, Key: key, Value: value} }

func label(key, value string) Setting { return Setting{In: Label, Key: key, Value: value} }

func field(path string, value any) Setting { return Setting{In: Field, Key: path, Value: value} }

// present returns an annotation that counts with any value.
func present(key string) Setting {
	return Setting{In: Annotation, Key: key, Value: "true", Presence: true}
}
