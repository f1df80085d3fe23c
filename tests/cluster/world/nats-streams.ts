import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { FaultyNats } from './faulty-cluster.ts'

const run = promisify(execFile)

export const MONITOR_PORT = 8_222

interface StreamState {
  readonly name: string
  readonly state: { readonly last_seq: number }
  readonly cluster?: {
    readonly leader?: string
    readonly replicas?: readonly { readonly current: boolean; readonly offline?: boolean }[]
  }
}

interface JetStreamState {
  readonly disabled?: boolean
  readonly meta_cluster?: { readonly leader?: string }
  readonly account_details?: readonly { readonly stream_detail?: readonly StreamState[] }[]
}

const ASK = `
const answer = await fetch(process.argv[1], { signal: AbortSignal.timeout(5_000) })
console.log(await answer.text())
`

/** What a NATS server says of its streams. Rejects when it does not answer. */
async function askFor({ member }: FaultyNats): Promise<JetStreamState> {
  const url = `http://${member.address}:${MONITOR_PORT}/jsz?streams=true`
  const [command = '', ...args] = [...member.launcher, process.execPath, '--input-type=module', '--eval', ASK]
  const { stdout } = await run(command, [...args, url])
  return JSON.parse(stdout)
}

const streamsIn = ({ account_details: accounts = [] }: JetStreamState) =>
  accounts.flatMap(({ stream_detail: streams = [] }) => streams)

/** The leader that each server knows of each stream and the newest message that it has, and its last complaints. */
export async function describeNats(all: readonly FaultyNats[]): Promise<string> {
  const described = all.map(async (nats) => {
    const found = await askFor(nats).catch(() => undefined)
    const streams = found === undefined ? [] : streamsIn(found)
    const lines = streams.map(
      ({ name, state, cluster }) => `  ${name}: ${cluster?.leader ?? 'no leader'}, ${state.last_seq}`,
    )
    const leader = found?.disabled === true ? 'JetStream is off' : `leader ${found?.meta_cluster?.leader}`
    return [`${nats.member.name}: ${leader}`, ...lines.sort(), ...nats.server.complaints].join('\n')
  })
  return (await Promise.all(described)).join('\n')
}

/** Whether every stream has a leader, and all other servers have what it has. */
export async function isWhole(all: readonly FaultyNats[]): Promise<boolean> {
  const found = await Promise.all(all.map((nats) => askFor(nats).catch(() => undefined)))
  const names = new Set<string>()
  const whole = new Set<string>()
  for (const [index, one] of found.entries())
    for (const { name, cluster } of one === undefined ? [] : streamsIn(one)) {
      names.add(name)
      const replicas = cluster?.replicas ?? []
      const isLeader = cluster?.leader === all[index]?.member.name
      const isCurrent = replicas.length === all.length - 1 && replicas.every((other) => other.current)
      if (isLeader && isCurrent) whole.add(name)
    }
  return names.size > 0 && whole.size === names.size
}
