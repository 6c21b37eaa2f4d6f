{{- define "spanscore.labels" -}}
app.kubernetes.io/name: spanscore
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "spanscore.config" -}}
{{- if eq .Values.mode "fleet" }}
{{- omit .Values.config "receivers" | toYaml }}
receivers: {{- toYaml .Values.fleet.receivers | nindent 2 }}
{{- else }}
{{- toYaml .Values.config }}
{{- end }}
{{- end }}

{{- define "spanscore.gatewayLabels" -}}
app.kubernetes.io/name: spanscore-gateway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "spanscore.pod" -}}
metadata:
  labels:
    {{- include "spanscore.labels" . | nindent 4 }}
  annotations:
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    # What a process can take while it runs (docs/security.md, "Reload") it reads again by `--watch`,
    # once the ConfigMap has reached it; a change of anything else rolls the pods.
    checksum/config: {{ omit (include "spanscore.config" . | fromYaml) "dialects" "evaluators" "exporters" "failures" "forward" "judges" "judging" "limits" "shutdown_timeout" "traces" | toYaml | sha256sum }}
spec:
  {{- with .Values.pod }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: spanscore
      image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve, --config, /etc/spanscore/config.yaml, --watch]
      env:
        {{- if eq .Values.mode "fleet" }}
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        {{- end }}
        {{- with .Values.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - {name: otlp-grpc, containerPort: 4317}
        - {name: otlp-http, containerPort: 4318}
        - {name: metrics, containerPort: 8888}
        - {name: health, containerPort: 13133}
      livenessProbe:
        httpGet: {path: /livez, port: health}
      readinessProbe:
        httpGet: {path: /readyz, port: health}
        periodSeconds: 5
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      resources: {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/spanscore}
        - {name: tmp, mountPath: /tmp}
        {{- if eq .Values.mode "statefulset" }}
        - {name: data, mountPath: /var/lib/spanscore}
        {{- end }}
        {{- with .Values.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ .Release.Name }}-spanscore}
    - name: tmp
      emptyDir: {sizeLimit: 1Gi}
    {{- with .Values.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}
