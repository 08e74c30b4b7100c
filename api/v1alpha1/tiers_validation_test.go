package v1alpha1_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

func federation(change func(*v1alpha1.FederationSpec)) client.Object {
	f := &v1alpha1.Federation{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "f-"},
		Spec:       v1alpha1.FederationSpec{Geographies: []v1alpha1.Geography{{Name: "asia"}}},
	}
	change(&f.Spec)
	return f
}

// federations are what the API server says to fields of the tiers; empty is yes.
func federations() map[string]struct {
	object client.Object
	want   string
} {
	type row = struct {
		object client.Object
		want   string
	}
	retention := func(all, edges string) client.Object {
		return federation(func(s *v1alpha1.FederationSpec) { s.Retention, s.Edge.Retention = all, edges })
	}
	link := func(l v1alpha1.Link) client.Object {
		return federation(func(s *v1alpha1.FederationSpec) { s.Link = l })
	}
	store := func(s v1alpha1.LongTermStore) client.Object {
		return federation(func(f *v1alpha1.FederationSpec) { f.LongTerm = []v1alpha1.LongTermStore{s} })
	}
	alerting := func(a v1alpha1.Alerting, of ...v1alpha1.ServiceAddressing) client.Object {
		return federation(func(s *v1alpha1.FederationSpec) {
			s.Alerting = a
			for _, how := range of {
				s.Network.ServiceAddressing = how
			}
		})
	}
	theirs := func(url, token string) []v1alpha1.ExistingAlertmanager {
		return []v1alpha1.ExistingAlertmanager{{Name: "old", URL: url, BearerTokenSecret: token}}
	}
	twice := func(one, other string) []v1alpha1.ExistingAlertmanager {
		return []v1alpha1.ExistingAlertmanager{{Name: "old", URL: one}, {Name: "new", URL: other}}
	}
	none, one, three, four := ptr.To[int32](0), ptr.To[int32](1), ptr.To[int32](3), ptr.To[int32](4)
	const both = "https://cascade-{geography}-{shard}.example.org/api/v1/write"
	secured := func(kind v1alpha1.LinkType, url string, use ...v1alpha1.LinkKey) v1alpha1.Link {
		if len(use) == 0 {
			use = []v1alpha1.LinkKey{v1alpha1.LinkAuthority, v1alpha1.LinkCertificate, v1alpha1.LinkToken}
		}
		return v1alpha1.Link{Type: kind, ReceiveURL: url, Credentials: &v1alpha1.LinkCredentials{SecretName: "link", Use: use, ServerName: "edge.example.org"}}
	}
	given := func(r v1alpha1.ServerResources) client.Object {
		return federation(func(s *v1alpha1.FederationSpec) { s.Resources.Central = r })
	}
	of := func(q string) *resource.Quantity { return ptr.To(resource.MustParse(q)) }
	return map[string]row{
		"a server with what it needs":                 {given(v1alpha1.ServerResources{CPU: of("2"), Memory: of("8Gi"), MemoryLimit: of("8Gi"), Volume: of("100Gi")}), ""},
		"a limit alone":                               {given(v1alpha1.ServerResources{MemoryLimit: of("8Gi")}), ""},
		"a limit below what is asked for":             {given(v1alpha1.ServerResources{Memory: of("8Gi"), MemoryLimit: of("4Gi")}), "memoryLimit must be at least memory"},
		"a limit of next to nothing":                  {given(v1alpha1.ServerResources{MemoryLimit: of("4m")}), "memoryLimit must be at least memory, and at least 64Mi"},
		"memory that forgets its unit":                {given(v1alpha1.ServerResources{Memory: of("8")}), "memory must be at least 64Mi"},
		"no CPU":                                      {given(v1alpha1.ServerResources{CPU: of("0")}), "cpu must be above 0"},
		"a volume too small for a block":              {given(v1alpha1.ServerResources{Volume: of("100Mi")}), "volume must be at least 1Gi"},
		"a retention that no central can have":        {retention("24h", ""), "a central needs at least 26h"},
		"a day is too little, too":                    {retention("1d", ""), "a central needs at least 26h"},
		"nothing is too little":                       {retention("0w", ""), "a central needs at least 26h"},
		"26 hours are enough":                         {retention("26h", ""), ""},
		"100 hours are more":                          {retention("100h", ""), ""},
		"two days are more":                           {retention("2d", ""), ""},
		"a week is more":                              {retention("1w", ""), ""},
		"little where the edges keep more":            {retention("6h", "2d"), "a central needs at least 26h"},
		"much where the edges keep too little":        {retention("2w", "25h"), "an edge needs at least 26h"},
		"a retention that is no duration":             {retention("ten days", ""), "spec.retention"},
		"a link of its own kind":                      {link(v1alpha1.Link{Type: "Carrier"}), "spec.link.type"},
		"a pull, said":                                {link(v1alpha1.Link{Type: v1alpha1.LinkFederate}), ""},
		"three Alertmanagers":                         {alerting(v1alpha1.Alerting{Replicas: three}), ""},
		"four Alertmanagers":                          {alerting(v1alpha1.Alerting{Replicas: four}), "spec.alerting.replicas"},
		"Alertmanagers that cannot find each other":   {alerting(v1alpha1.Alerting{Replicas: three}, v1alpha1.ServiceClusterIP), "alerting.replicas above 1 needs DNS"},
		"one that need not":                           {alerting(v1alpha1.Alerting{Replicas: one}, v1alpha1.ServiceClusterIP), ""},
		"no Alertmanager at all":                      {alerting(v1alpha1.Alerting{Replicas: none}), "replicas 0 needs alertmanagers"},
		"none but theirs":                             {alerting(v1alpha1.Alerting{Replicas: none, Alertmanagers: theirs("http://am:9093/x", "")}), ""},
		"theirs beside ours":                          {alerting(v1alpha1.Alerting{Alertmanagers: theirs("https://am", "token")}), ""},
		"a token for everybody":                       {alerting(v1alpha1.Alerting{Alertmanagers: theirs("http://am", "token")}), "a token needs an https url"},
		"two Alertmanagers behind one name":           {alerting(v1alpha1.Alerting{Alertmanagers: twice("http://a:9093/x", "http://a:9093/y")}), ""},
		"an Alertmanager by steps up":                 {alerting(v1alpha1.Alerting{Alertmanagers: theirs("http://am/x/../y", "")}), "written plainly"},
		"an Alertmanager by a hidden slash":           {alerting(v1alpha1.Alerting{Alertmanagers: theirs("http://am/x%2Fy", "")}), "written plainly"},
		"an Alertmanager by a dot in a name":          {alerting(v1alpha1.Alerting{Alertmanagers: theirs("http://am/v1.2/..y/", "")}), ""},
		"an Alertmanager without scheme":              {alerting(v1alpha1.Alerting{Alertmanagers: theirs("am:9093", "")}), "spec.alerting.alertmanagers[0].url"},
		"a heartbeat":                                 {alerting(v1alpha1.Alerting{Heartbeat: &v1alpha1.Heartbeat{SecretName: "deadman"}}), ""},
		"a heartbeat of nothing":                      {alerting(v1alpha1.Alerting{Heartbeat: &v1alpha1.Heartbeat{}}), "spec.alerting.heartbeat.secretName"},
		"a heartbeat that nobody would send":          {alerting(v1alpha1.Alerting{Replicas: none, Alertmanagers: theirs("http://am", ""), Heartbeat: &v1alpha1.Heartbeat{SecretName: "deadman"}}), "with replicas 0 set them in your own"},
		"a push to nowhere":                           {link(v1alpha1.Link{Type: v1alpha1.LinkRemoteWrite}), "a RemoteWrite link needs receiveURL"},
		"a push to each shard":                        {link(v1alpha1.Link{Type: v1alpha1.LinkRemoteWrite, ReceiveURL: both}), ""},
		"a push to one of all shards":                 {link(v1alpha1.Link{Type: v1alpha1.LinkRemoteWrite, ReceiveURL: "https://a-{geography}/w"}), "must contain {geography} and {shard}"},
		"a push to what is no URL":                    {link(v1alpha1.Link{Type: v1alpha1.LinkRemoteWrite, ReceiveURL: "{geography}{shard}"}), "spec.link.receiveURL"},
		"a pull with everything that can be shown":    {link(secured("", "")), ""},
		"a push with a token to https":                {link(secured(v1alpha1.LinkRemoteWrite, both, v1alpha1.LinkToken)), ""},
		"a push with a token in the open":             {link(secured(v1alpha1.LinkRemoteWrite, strings.Replace(both, "https", "http", 1), v1alpha1.LinkToken)), "credentials need an https receiveURL"},
		"a pull whose receiveURL nobody uses":         {link(secured("", strings.Replace(both, "https", "http", 1))), ""},
		"a key of a Secret twice":                     {link(secured("", "", v1alpha1.LinkToken, v1alpha1.LinkToken)), "spec.link.credentials.use[1]: Duplicate value"},
		"a key of a Secret that nobody knows":         {link(secured("", "", "Password")), "spec.link.credentials.use[0]"},
		"credentials of nothing":                      {link(v1alpha1.Link{Credentials: &v1alpha1.LinkCredentials{SecretName: "link"}}), "spec.link.credentials.use"},
		"credentials from nowhere":                    {link(v1alpha1.Link{Credentials: &v1alpha1.LinkCredentials{Use: []v1alpha1.LinkKey{v1alpha1.LinkToken}}}), "spec.link.credentials.secretName"},
		"credentials from a path":                     {link(v1alpha1.Link{Credentials: &v1alpha1.LinkCredentials{SecretName: "../x", Use: []v1alpha1.LinkKey{v1alpha1.LinkToken}}}), "spec.link.credentials.secretName"},
		"three replicas of an edge":                   {federation(func(s *v1alpha1.FederationSpec) { s.Edge.Replicas = ptr.To(int32(3)) }), "spec.edge.replicas"},
		"a pair of edges":                             {federation(func(s *v1alpha1.FederationSpec) { s.Edge.Replicas = ptr.To(int32(2)) }), ""},
		"a shard of nothing":                          {federation(func(s *v1alpha1.FederationSpec) { s.Geographies[0].MaxSeriesPerShard = ptr.To(int32(999)) }), "maxSeriesPerShard"},
		"a store":                                     {store(v1alpha1.LongTermStore{Name: "year", URL: "https://store.example.org/write", BearerTokenSecret: "year"}), ""},
		"a token in the open":                         {store(v1alpha1.LongTermStore{Name: "year", URL: "http://a", BearerTokenSecret: "year"}), "a token needs an https url"},
		"a store nowhere":                             {store(v1alpha1.LongTermStore{Name: "year"}), "spec.longTerm[0].url"},
		"a store whose name cannot name a file":       {store(v1alpha1.LongTermStore{Name: "../x", URL: "https://a"}), "spec.longTerm[0].name"},
		"a store that is asked for by something else": {store(v1alpha1.LongTermStore{Name: "year", URL: "ftp://a"}), "spec.longTerm[0].url"},
	}
}

func cells() map[string]struct {
	object client.Object
	want   string
} {
	type row = struct {
		object client.Object
		want   string
	}
	edge := func(e v1alpha1.Edge) client.Object { return cell(func(s *v1alpha1.CellSpec) { s.Edge = e }) }
	ksm := []v1alpha1.StaticTarget{{Component: v1alpha1.ComponentKubeStateMetrics, Addresses: []string{"ksm:8080"}}}
	external := v1alpha1.Edge{Mode: v1alpha1.EdgeExternal, Endpoints: []string{"edge.example.org:9090"}}
	with := func(change func(*v1alpha1.Edge)) client.Object {
		e := external
		change(&e)
		return edge(e)
	}
	target := func(t v1alpha1.StaticTarget) client.Object {
		return edge(v1alpha1.Edge{StaticTargets: []v1alpha1.StaticTarget{t}})
	}
	pool := func(name v1alpha1.CapacityPoolName, limit string) client.Object {
		return cell(func(s *v1alpha1.CellSpec) {
			s.Capacity.Pools = []v1alpha1.CapacityPool{{Name: name, Limit: resource.MustParse(limit)}}
		})
	}
	return map[string]row{
		"a size":                                 {cell(func(s *v1alpha1.CellSpec) { s.Size = v1alpha1.CellLarge }), ""},
		"a size that does not exist":             {cell(func(s *v1alpha1.CellSpec) { s.Size = "Huge" }), "spec.size"},
		"shards and replicas":                    {edge(v1alpha1.Edge{Shards: ptr.To(int32(16)), Replicas: ptr.To(int32(2))}), ""},
		"more shards than the contract allows":   {edge(v1alpha1.Edge{Shards: ptr.To(int32(17))}), "spec.edge.shards"},
		"shards of an External edge":             {with(func(e *v1alpha1.Edge) { e.Shards = ptr.To(int32(2)) }), "for a Managed one"},
		"replicas of an External edge":           {with(func(e *v1alpha1.Edge) { e.Replicas = ptr.To(int32(1)) }), "for a Managed one"},
		"the interval of an External edge":       {with(func(e *v1alpha1.Edge) { e.IntervalSeconds = ptr.To(int32(30)) }), ""},
		"an interval that no sample lasts":       {with(func(e *v1alpha1.Edge) { e.IntervalSeconds = ptr.To(int32(141)) }), "spec.edge.intervalSeconds"},
		"an interval of nothing":                 {with(func(e *v1alpha1.Edge) { e.IntervalSeconds = ptr.To(int32(0)) }), "spec.edge.intervalSeconds"},
		"an interval of a Managed edge":          {edge(v1alpha1.Edge{IntervalSeconds: ptr.To(int32(15))}), "that of an External edge"},
		"an interval of an edge that is neither": {edge(v1alpha1.Edge{Mode: v1alpha1.EdgeManaged, IntervalSeconds: ptr.To(int32(15))}), "that of an External edge"},
		"targets of an External edge": {with(func(e *v1alpha1.Edge) {
			e.StaticTargets = []v1alpha1.StaticTarget{{Component: "etcd", Addresses: []string{"a:1"}}}
		}), "for a Managed one"},
		"an API server to skip":         {edge(v1alpha1.Edge{Skip: []v1alpha1.TargetComponent{"kube-apiserver"}}), "nothing could be said of a cluster"},
		"kube-state-metrics to skip":    {edge(v1alpha1.Edge{Skip: []v1alpha1.TargetComponent{"kube-state-metrics"}}), "is said in objectState"},
		"kube-state-metrics unread":     {edge(v1alpha1.Edge{StaticTargets: ksm}), "are read only where objectState is KubeStateMetrics"},
		"kube-state-metrics not asked":  {edge(v1alpha1.Edge{KubeStateMetricsNamespace: "monitoring"}), "is read only where objectState is KubeStateMetrics"},
		"no namespace":                  {edge(v1alpha1.Edge{KubeStateMetricsNamespace: "a/b", ObjectState: v1alpha1.ObjectStateKubeStateMetrics}), "kubeStateMetricsNamespace: Invalid value"},
		"kube-state-metrics by a name":  {edge(v1alpha1.Edge{StaticTargets: ksm, ObjectState: v1alpha1.ObjectStateKubeStateMetrics}), ""},
		"objects told by somebody else": {edge(v1alpha1.Edge{ObjectState: "Nobody"}), "spec.edge.objectState: Unsupported value"},
		"hosts to skip":                 {edge(v1alpha1.Edge{Skip: []v1alpha1.TargetComponent{"node-exporter", "kubelet"}}), ""},
		"an unverified API server":      {edge(v1alpha1.Edge{Unverified: []v1alpha1.TargetComponent{"kube-apiserver"}}), "the certificate may go unchecked"},
		"an unverified kubelet":         {edge(v1alpha1.Edge{Unverified: []v1alpha1.TargetComponent{"kubelet"}}), ""},
		"one shard of an External edge": {with(func(e *v1alpha1.Edge) { e.Shards = ptr.To(int32(1)) }), ""},
		"a target": {target(v1alpha1.StaticTarget{
			Component: "etcd", Cluster: "shop", Addresses: []string{"10.0.0.1:2381", "[fd00::1]:2381"}, Scheme: v1alpha1.SchemeHTTP,
		}), ""},
		"a target of a kind that nobody reads": {target(v1alpha1.StaticTarget{Component: "mail", Addresses: []string{"a:1"}}), "component"},
		"a target nowhere":                     {target(v1alpha1.StaticTarget{Component: "etcd"}), "addresses"},
		"a target at a URL":                    {target(v1alpha1.StaticTarget{Component: "etcd", Addresses: []string{"http://a:1"}}), "addresses"},
		"a target of the meta cluster by name": {target(v1alpha1.StaticTarget{Component: "etcd", Cluster: "_meta", Addresses: []string{"a:1"}}), "cluster"},
		"a pool":                               {pool("addresses", "4Ki"), ""},
		"a pool of less than nothing":          {pool("clusters", "-1"), "limit must be at least 1"},
		"a pool of less than one":              {pool("clusters", "1n"), "limit must be at least 1"},
		"a pool that nobody watches":           {pool("patience", "1"), "spec.capacity.pools[0].name"},
	}
}

// What the tiers cannot be is refused by the API server itself, with the reason.
func TestAPIServerRefusesTiers(t *testing.T) {
	c, err := client.New(testkit.APIServer(t), client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)
	rows := federations()
	maps.Copy(rows, cells())
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			err := c.Create(t.Context(), row.object)
			if row.want == "" {
				require.NoError(t, err)
				return
			}
			require.True(t, apierrors.IsInvalid(err), "%v", err)
			require.ErrorContains(t, err, row.want)
		})
	}
}
