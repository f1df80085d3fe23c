import type { Template } from 'dormouse'
import { useEffect, useRef, useState } from 'preact/hooks'
import { client } from '../client.ts'
import { confirmed } from '../parts/confirm.tsx'
import { Table } from '../parts/table.tsx'
import { useRead } from '../parts/use-read.ts'
import { Link, navigate, route } from '../router.tsx'
import { mayRun } from '../state/session.ts'
import { attempt, tell } from '../state/toasts.ts'
import { ago, bytes } from '../words.ts'

/** How often the states of templates are read while one is built. */
const BUILD_MS = 1000

export function TemplatesPage() {
  const chosen = route.value[1]
  const { value, again } = useRead(
    (signal) => client.templates.list({ signal }).all(),
    'templates',
    ({ type }) => type === 'template.changed',
  )
  const isBuilding = value?.some(({ state }) => state === 'building') === true
  useEffect(() => {
    if (!isBuilding) return
    const timer = setInterval(again, BUILD_MS)
    return () => clearInterval(timer)
  }, [isBuilding])
  const remove = async (name: string) => {
    if (!(await confirmed(`Delete ${name}?`, 'Sandboxes that were made from it stay.', 'Delete'))) return
    if (await attempt('Delete', () => client.templates.delete(name))) again()
  }
  const shown = value?.find(({ name }) => name === chosen)
  return (
    <section>
      <header class="head">
        <h1>Templates</h1>
      </header>
      <Table
        label="Templates"
        head={['Name', 'State', 'From', 'Size', 'Made', 'Actions']}
        empty="Reading templates…"
        rows={(value ?? []).map((one) => [
          <Link key="name" to={`/templates/${one.name}`}>
            {one.name}
          </Link>,
          <span key="state" class={`build ${one.state}`}>
            {one.progress === undefined ? one.state : `${one.state}: ${one.progress}`}
          </span>,
          one.from ?? one.image ?? one.source.replace('_', ' '),
          bytes(one.bytes),
          ago(one.createdAt),
          mayRun() && one.source !== 'built_in' && one.source !== 'host' && (
            <button key="delete" type="button" class="danger" onClick={() => void remove(one.name)}>
              Delete
            </button>
          ),
        ])}
      />
      {shown !== undefined && <BuildLog template={shown} />}
      {mayRun() && <NewTemplate onMade={again} />}
    </section>
  )
}

/** Lines of a log that are shown; a build may print more than a page can hold. */
const LOG_LINES = 2000

/** The lines of a build as they come. */
function useLog(name: string, state: Template['state']): readonly string[] | undefined {
  const [lines, setLines] = useState<readonly string[]>()
  useEffect(() => {
    const stop = new AbortController()
    const follow = async () => {
      setLines([])
      for await (const { text } of client.templates.log(name, { signal: stop.signal }))
        setLines((before = []) => [...before.slice(1 - LOG_LINES), text])
    }
    follow().catch(() => {})
    return () => stop.abort()
  }, [name, state === 'building'])
  return lines
}

function BuildLog({
  template: { name, state, description, logTail, error, failedStep, materials },
}: {
  template: Template
}) {
  const lines = useLog(name, state)
  const end = useRef<HTMLPreElement>(null)
  useEffect(() => end.current?.scrollTo({ top: end.current.scrollHeight }), [lines])
  return (
    <div class="panel spaced">
      <h2>{name}</h2>
      {description !== undefined && <p>{description}</p>}
      {materials !== undefined && <p class="note">{materials.count} packages</p>}
      {error !== undefined && <p class="problem">{error}</p>}
      {failedStep !== undefined && mayRun() && (
        <button type="button" onClick={() => void debug(name)}>
          Open a sandbox in the state before this step
        </button>
      )}
      <pre class="log" role="log" aria-label="Build log" ref={end} tabIndex={0}>
        {lines?.length ? lines.join('\n') : (logTail ?? 'There is no build log.')}
      </pre>
    </div>
  )
}

async function debug(name: string): Promise<void> {
  await attempt('Open a sandbox', async () => {
    const { id } = await client.templates.debug(name)
    navigate(`/sandboxes/${id}`)
  })
}

function NewTemplate({ onMade }: { onMade: () => void }) {
  const [isBusy, setIsBusy] = useState(false)
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    const data = new FormData(event.currentTarget as HTMLFormElement)
    const list = (field: string) =>
      String(data.get(field))
        .split(/[\s,]+/)
        .filter(Boolean)
    const name = String(data.get('name')).trim()
    setIsBusy(true)
    await attempt('Build', async () => {
      const image = String(data.get('image')).trim()
      const base = image === '' ? { from: 'python' } : { image }
      await client.templates.create({ name, ...base, packages: list('packages'), pip: list('pip') })
      tell(`Building ${name}`)
      onMade()
    })
    setIsBusy(false)
  }
  return (
    <form class="panel spaced" onSubmit={(event) => void submit(event as unknown as SubmitEvent)}>
      <h2>New template</h2>
      <div class="fields">
        <label>
          Name <input name="name" required maxLength={63} />
        </label>
        <label>
          Container image <input name="image" placeholder="none: the template python" />
        </label>
        <label>
          Debian packages <input name="packages" placeholder="ffmpeg graphviz" />
        </label>
        <label>
          Python packages <input name="pip" placeholder="polars httpx" />
        </label>
        <button type="submit" disabled={isBusy}>
          Build
        </button>
      </div>
    </form>
  )
}
