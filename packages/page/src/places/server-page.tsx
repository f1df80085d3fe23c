import { client } from '../client.ts'
import { Table } from '../parts/table.tsx'
import { useRead } from '../parts/use-read.ts'
import { isAdmin, session } from '../state/session.ts'
import { attempt } from '../state/toasts.ts'
import { bytes } from '../words.ts'

/** The server itself: its version, its numbers, and whether everything that it stores is intact. */
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
