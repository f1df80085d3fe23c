import { describeRecovery, type Recovery } from '../sandbox/recover.ts'
import { isWildcardAddress } from '../ssh/open-ssh.ts'

/** What a server says of itself: to programs as it is, to people as lines. */
export type ServerNews = ReadyNews | EndedNews

export interface ReadyNews {
  readonly type: 'ready'
  readonly version: string
  readonly url: string
  /** Absent when SSH is off. */
  readonly ssh?: { readonly host: string; readonly port: number } | undefined
  readonly dataDir: string
  readonly criu?: string | undefined
  /** What became of the sandboxes that were there. */
  readonly sandboxes: Recovery
  /** Absent when the log is on stderr. */
  readonly logPath?: string | undefined
  /** What this host lacks, and what did not start. */
  readonly notes: readonly string[]
  /** Of the first start, and never again. */
  readonly apiKey?: string | undefined
}

export interface EndedNews {
  readonly type: 'ended'
  /** Sandboxes that were put to standby. */
  readonly asleep: number
  /** Those that could not be saved in time: they run on, and are found at the next start. */
  readonly left: number
}

export function newsLines(news: ServerNews): string[] {
  return news.type === 'ready' ? readyLines(news) : [endedLine(news)]
}

function readyLines({ url, ssh, dataDir, criu, sandboxes, logPath, notes, apiKey }: ReadyNews): string[] {
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

function endedLine({ asleep, left }: EndedNews): string {
  const rest =
    left === 0 ? '' : `; ${left} could not be saved in time, run on, and are found at the next start`
  return `Dormouse has ended: ${asleep} sandboxes put to standby${rest}.`
}
