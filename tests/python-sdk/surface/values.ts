/** A value class of the Python SDK and its TypeScript type, with the fields that have other names. */
export interface Value {
  readonly types: readonly string[]
  readonly renamed?: Readonly<Record<string, string>>
  readonly onlyTypeScript?: Readonly<Record<string, string>>
  readonly onlyPython?: Readonly<Record<string, string>>
}

const USAGE = "contract.SandboxMetricsAnswer['usage']"

export const VALUES: Readonly<Record<string, Value>> = {
  CannotSleep: { types: ["contract.WhyAnswer['cannotSleep']"] },
  CommandResult: {
    types: ['sdk.CommandResult', 'contract.ProcessResultAnswer'],
    onlyTypeScript: { ok: 'a property in Python', check: 'a method' },
  },
  Completions: { types: ['contract.CompletionsAnswer'] },
  ContextInfo: { types: ['contract.ContextAnswer'] },
  DamagedSnapshot: { types: ["contract.ScrubAnswer['damagedSnapshots'][number]"] },
  DamagedTemplate: { types: ["contract.ScrubAnswer['damagedTemplates'][number]"] },
  Denied: {
    types: ["contract.NetworkReportAnswer['denied'][number]", "sdk.LedgerEntry['denied']"],
  },
  Event: { types: ['sdk.RunEvent', 'contract.ProcessEventAnswer'], renamed: { exitCode: 'code' } },
  Execution: {
    types: ['sdk.RunResult'],
    onlyTypeScript: {
      text: 'a property in Python',
      ok: 'the same',
      result: 'the same',
      check: 'a method',
    },
  },
  Expires: {
    types: ["contract.SandboxAnswer['expires']"],
    renamed: { afterMs: 'after', idleMs: 'idle' },
  },
  FailedLookup: { types: ["contract.NetworkReportAnswer['failedLookups'][number]"] },
  FileChange: { types: ['contract.FileChangeAnswer'], renamed: { from: 'from_path' } },
  FileStat: { types: ['contract.FileStatAnswer'] },
  LedgerEntry: { types: ['sdk.LedgerEntry'] },
  Limits: { types: ["contract.SandboxAnswer['limits']"] },
  MapOutcome: { types: ['sdk.MapOutcome<unknown>'] },
  Material: { types: ["contract.TemplateMaterialsAnswer['items'][number]"] },
  MaterialsSummary: { types: ["NonNullable<contract.TemplateAnswer['materials']>"] },
  Memory: { types: ["contract.SandboxMetricsAnswer['memory']"] },
  MemoryNotice: { types: ["contract.WhyAnswer['memory']"] },
  Metrics: {
    types: ['contract.SandboxMetricsAnswer', USAGE],
    onlyTypeScript: { usage: 'its numbers are those of the sandbox' },
  },
  NetworkCounters: { types: ["contract.NetworkReportAnswer['counters']"] },
  NetworkInfo: { types: ["contract.SandboxAnswer['network']"] },
  NetworkReport: { types: ['contract.NetworkReportAnswer'] },
  Port: { types: ['contract.PortAnswer'] },
  PortLink: { types: ['contract.PortLinkAnswer'] },
  PortResponse: {
    types: ["Pick<Response, 'status' | 'headers' | 'arrayBuffer'>"],
    renamed: { arrayBuffer: 'content' },
  },
  ProcessInfo: { types: ['contract.ProcessAnswer'] },
  PtyExit: { types: ['sdk.PtyExit'] },
  RaceEntry: { types: ['sdk.RaceEntry'] },
  RunError: { types: ["contract.RunResultAnswer['error']"] },
  RunInfo: {
    types: ['contract.RunWithResultAnswer'],
    onlyTypeScript: { result: '`runs.result` has it' },
  },
  SandboxDamage: { types: ["contract.SandboxAnswer['damage']", "contract.WhyAnswer['damage']"] },
  SandboxInfo: { types: ['contract.SandboxAnswer'] },
  ScrubProgress: { types: ["contract.ScrubAnswer['progress']"] },
  ScrubStatus: { types: ['contract.ScrubAnswer'] },
  Secret: { types: ['contract.SecretAnswer'] },
  Service: { types: ['contract.ServiceAnswer'] },
  ServiceLogLine: { types: ['contract.ServiceLogLineAnswer'] },
  ServiceReplica: { types: ["contract.ServiceAnswer['replicas']['items'][number]"] },
  ServiceReplicas: { types: ["contract.ServiceAnswer['replicas']"] },
  ServiceVersion: { types: ["contract.ServiceAnswer['versions'][number]"] },
  Snapshot: { types: ['contract.SnapshotAnswer'] },
  SnapshotBytes: { types: ["contract.SnapshotAnswer['bytes']"] },
  SnapshotDamage: { types: ["contract.SnapshotAnswer['damage']"] },
  SshEndpoint: { types: ['contract.SshEndpointAnswer'] },
  SshKey: { types: ['contract.SshKeyAnswer'] },
  Template: { types: ['contract.TemplateAnswer'], renamed: { from: 'from_' } },
  TemplateMaterials: { types: ['contract.TemplateMaterialsAnswer'] },
  Truncated: { types: ["contract.RunResultAnswer['truncated']"] },
  Usage: { types: ['contract.UsageAnswer'], renamed: { from: 'start', to: 'end' } },
  UsageNumbers: { types: ["contract.UsageAnswer['sandboxes'][number]"] },
  Volume: { types: ['contract.VolumeAnswer'] },
  VolumeMount: { types: ["contract.SandboxAnswer['volumes'][number]"] },
  Why: { types: ['contract.WhyAnswer'] },
  Work: { types: ["contract.WhyAnswer['work'][number]"] },
}

/** Answers that callers do not see as a whole, and why. Lists and pages are lists in Python. */
export const NO_VALUES = {
  ActivityAnswer: 'its items, as mappings in Python',
  ErrorAnswer: 'an exception',
  FamilyAnswer: 'a mapping in Python',
  ForkAnswer: 'the children themselves',
  HoldAnswer: 'the moment alone in Python',
  InterruptAnswer: 'the outcome alone',
  OverviewAnswer: 'a mapping in Python',
  RunAnswer: 'RunWithResultAnswer has all of it',
  RunEventAnswer: 'sdk.RunEvent, without `failed`, which is thrown',
  ServerEventAnswer: 'a mapping in Python',
  SessionAnswer: 'a mapping in Python',
  SignInLinkAnswer: 'the URL alone',
  TemplateLogLineAnswer: 'a mapping in Python',
  UploadAnswer: 'the id alone in Python',
}
