import { describeRecovery, type Recovery } from '../sandbox/recover.ts'
import { isWildcardAddress } from '../ssh/open-ssh.ts'

/** What the server reports: programs get it as it is, people as lines of text. */
export type ServerReport = ReadyReport | EndedReport

export interface ReadyReport {
  readonly type: 'ready'
  readonly version: string
  readonly url: string
  /** Absent when SSH is off. */
  readonly ssh?: { readonly host: string; readonly port: number } | undefined
  readonly dataDir: string
  readonly criu?: string | undefined
  /** What recovery did. */
  readonly sandboxes: Recovery
  /** Absent when the log is on stderr. */
  readonly logPath?: string | undefined
  /** What this host lacks, and which parts of the server did not start. */
  readonly notes: readonly string[]
  /** Only at the first start. */
  readonly apiKey?: string | undefined
}

export interface EndedReport {
  readonly type: 'ended'
  /** Sandboxes that were put to standby. */
  readonly asleep: number
  /** Sandboxes that could not be saved in time: they keep running, and the next start adopts them. */
  readonly left: number
}

export function reportLines(report: ServerReport): string[] {
  return report.type === 'ready' ? readyLines(report) : [endedLine(report)]
}

function readyLines({ url, ssh, dataDir, criu, sandboxes, logPath, notes, apiKey }: ReadyReport): string[] {
  return [
    'Dormouse is ready.',
    `  address    ${url}`,
    ...(ssh === undefined
      ? []
      : [
          `  ssh        ssh <sandbox>@${isWildcardAddress(ssh.host) ? '<this host>' : ssh.host} -p ${ssh.port}`,
        ]),
    `  data       ${dataDir}`,
    `  CRIU       ${criu ?? 'none'}`,
    `  sandboxes  ${describeRecovery(sandboxes)}`,
    ...(logPath === undefined ? [] : [`  log        ${logPath}`]),
    ...notes.map((note) => `  note       ${note}`),
    ...(apiKey === undefined ? [] : ['', `  Your API key, shown this once:  ${apiKey}`, '']),
    'Ctrl-C puts everything to standby and ends it.',
  ]
}

function endedLine({ asleep, left }: EndedReport): string {
  const rest =
    left === 0 ? '' : `; ${left} could not be saved in time and keep running until the next start adopts them`
  return `Dormouse has ended: ${asleep} sandboxes put to standby${rest}.`
}
