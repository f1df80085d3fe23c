import { useEffect, useRef, useState } from 'preact/hooks'
import { client } from '../client.ts'
import { Table } from '../parts/table.tsx'
import { useRead } from '../parts/use-read.ts'
import { isAdmin, session } from '../state/session.ts'
import { attempt } from '../state/toasts.ts'
import { ago, bytes } from '../words.ts'
import { NodesPart } from './nodes-part.tsx'

/** The server itself: its version, what the doctor finds, its log, its numbers, and whether what it stores is intact. */
export function ServerPage() {
  const metrics = useRead(readMetrics, 'metrics', ({ type }) => type === 'sandbox.ledger')
  const scrub = useRead(
    (signal) => (isAdmin() ? client.scrub.status({ signal }) : Promise.resolve(undefined)),
    'scrub',
  )
  const check = () =>
    void attempt('Check', async () => {
      await client.scrub.start()
      scrub.again()
    })
  return (
    <section>
      <header class="head">
        <h1>Server</h1>
        <span class="note">Dormouse {session.value?.server.version}</span>
      </header>
      <NodesPart />
      {isAdmin() && <Host />}
      {scrub.value !== undefined && (
        <div class="panel spaced">
          <h2>Stored data</h2>
          <p>
            {scrub.value.state === 'running' ? 'Being checked now. ' : 'Not being checked. '}
            {scrub.value.damagedSnapshots.length + scrub.value.damagedTemplates.length === 0
              ? 'No damage is known.'
              : `Damaged: ${scrub.value.damagedSnapshots.length} snapshots.`}
          </p>
          <div class="buttons">
            <button type="button" onClick={check}>
              Check everything
            </button>
          </div>
        </div>
      )}
      <Table
        label="Numbers of the server"
        head={['Number', 'Value']}
        empty={metrics.problem ?? 'Reading numbers…'}
        rows={(metrics.value ?? []).map(({ name, value }) => [
          <code key="name">{name}</code>,
          /bytes/.test(name) ? bytes(value) : value.toLocaleString(),
        ])}
      />
    </section>
  )
}

function Host() {
  const { value, problem, again } = useRead((signal) => client.server.report({ signal }), 'server')
  if (value === undefined) return <p class="loading">{problem ?? 'Examining the host…'}</p>
  const { disk, memory, checks, startedAt, canRunSandboxes } = value
  return (
    <>
      <dl class="summary">
        {[
          ['started', ago(startedAt)],
          ['disk free', `${bytes(disk.freeBytes)} of ${bytes(disk.totalBytes)}`],
          ['memory free', `${bytes(memory.freeBytes)} of ${bytes(memory.totalBytes)}`],
          ['sandboxes', canRunSandboxes ? 'can run' : 'cannot run'],
        ].map(([name, text]) => (
          <div key={name} class="figure">
            <dt>{name}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      <div class="panel spaced">
        <h2>Doctor</h2>
        <Table
          label="Checks of the host"
          head={['Check', 'State', 'Found']}
          empty="Nothing was checked."
          rows={checks.map(({ title, status, found, mend }) => [
            title,
            <span key="status" class={`build ${status === 'ok' ? 'ready' : 'failed'}`}>
              {status}
            </span>,
            mend === undefined ? found : `${found}. ${mend}`,
          ])}
        />
        <div class="buttons">
          <button type="button" onClick={again}>
            Examine again
          </button>
        </div>
      </div>
      <ServerLog />
    </>
  )
}

/** Lines that are shown. */
const LINES_MAX = 500

function ServerLog() {
  const [lines, setLines] = useState<readonly string[]>([])
  const box = useRef<HTMLPreElement>(null)
  useEffect(() => {
    const stop = new AbortController()
    const follow = async () => {
      for await (const { text } of client.server.log({ follow: true, signal: stop.signal }))
        setLines((before) => [...before.slice(1 - LINES_MAX), readable(text)])
    }
    follow().catch(() => {})
    return () => stop.abort()
  }, [])
  useEffect(() => box.current?.scrollTo({ top: box.current.scrollHeight }), [lines])
  return (
    <div class="panel spaced">
      <h2>Log</h2>
      <pre class="log" role="log" aria-label="Log of the server" ref={box} tabIndex={0}>
        {lines.length === 0 ? 'Nothing was logged yet.' : lines.join('\n')}
      </pre>
    </div>
  )
}

const LEVELS: Record<number, string> = { 20: 'debug', 30: 'info', 40: 'warn', 50: 'error', 60: 'fatal' }

/** Time, level and message first, then the other fields. */
function readable(text: string): string {
  try {
    const { time, level, msg, ...fields } = JSON.parse(text)
    const rest = Object.keys(fields).length === 0 ? '' : ` ${JSON.stringify(fields)}`
    return `${time} ${LEVELS[level] ?? level} ${msg}${rest}`
  } catch {
    return text
  }
}

/** The numbers that Prometheus reads, without the buckets of histograms. */
async function readMetrics(signal: AbortSignal): Promise<{ name: string; value: number }[]> {
  const { response, close } = await client.http.open({ path: '/metrics', signal })
  try {
    const text = await response.text()
    return text.split('\n').flatMap((line) => {
      const match = /^(dormouse_\S+?(?:\{.*\})?) (\S+)$/.exec(line)
      if (match === null || /_bucket/.test(match[1] ?? '')) return []
      return { name: match[1] ?? '', value: Number(match[2]) }
    })
  } finally {
    close()
  }
}
