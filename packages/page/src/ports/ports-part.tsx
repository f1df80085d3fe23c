import type { Port } from 'dormouse'
import { useState } from 'preact/hooks'
import { Table } from '../parts/table.tsx'
import { useRead } from '../parts/use-read.ts'
import { NeedsAwake } from '../sandbox/needs-awake.tsx'
import type { PartProps } from '../sandbox/sandbox-page.tsx'
import { mayRun, session } from '../state/session.ts'
import { attempt, tell } from '../state/toasts.ts'

export function PortsPart(props: PartProps) {
  return (
    <NeedsAwake info={props.info} what="Listening ports">
      <Ports {...props} />
    </NeedsAwake>
  )
}

function Ports({ sandbox }: PartProps) {
  const [preview, setPreview] = useState<{ port: number; url: string }>()
  const { value, problem, again } = useRead(
    (signal) => sandbox.ports.list({ signal }),
    sandbox,
    ({ sandboxId, type }) => sandboxId === sandbox.id && type === 'run.finished',
    { followsGaps: false },
  )
  const show = ({ port }: Port) =>
    void attempt('Preview', async () =>
      setPreview({ port, url: previewUrl((await sandbox.ports.link(port)).url) }),
    )
  const copy = ({ port }: Port) =>
    void attempt('Link', async () => {
      const { url } = await sandbox.ports.link(port)
      await navigator.clipboard.writeText(url)
      tell(`Copied a link to port ${port}. It opens the port without a key for an hour.`)
    })
  const setAccess = ({ port, access }: Port) =>
    void attempt('Access', async () => {
      await sandbox.ports.setAccess(port, access === 'public' ? 'private' : 'public')
      again()
    })
  return (
    <section aria-label="Ports">
      <div class="head">
        <button type="button" onClick={again}>
          Look again
        </button>
        {problem !== undefined && <span class="problem">{problem}</span>}
      </div>
      <Table
        label="Ports"
        head={['Port', 'Listening', 'Access', 'Address', 'Actions']}
        empty="No program listens. One that does appears here."
        rows={(value ?? []).map((port) => [
          port.port,
          port.isListening ? port.addresses.join(', ') || 'yes' : 'no',
          port.access,
          <code key="url">{port.url}</code>,
          mayRun() && (
            <span key="actions" class="row-actions">
              <button type="button" onClick={() => show(port)}>
                Preview
              </button>
              <button type="button" onClick={() => copy(port)}>
                Copy link
              </button>
              <button type="button" onClick={() => setAccess(port)}>
                Make {port.access === 'public' ? 'private' : 'public'}
              </button>
            </span>
          ),
        ])}
      />
      {preview !== undefined && <Preview {...preview} onClose={() => setPreview(undefined)} />}
    </section>
  )
}

/** The link names the host that this page was loaded from; the frame needs the domain of previews. */
function previewUrl(url: string): string {
  return session.value?.server.previewDomain === undefined ? '' : url
}

function Preview({ port, url, onClose }: { port: number; url: string; onClose: () => void }) {
  return (
    <figure class="preview">
      <figcaption class="files-head">
        <strong>Port {port}</strong>
        <span class="spacer" />
        <a href={url} target="_blank" rel="noreferrer noopener">
          Open in a tab
        </a>
        <button type="button" onClick={onClose}>
          Close
        </button>
      </figcaption>
      {url === '' ? (
        <p class="empty">This server has no domain for previews, so they cannot be shown in a frame.</p>
      ) : (
        // On an origin of its own: it can use its storage, and cannot reach this page.
        <iframe
          src={url}
          title={`Preview of port ${port}`}
          sandbox="allow-scripts allow-forms allow-same-origin allow-modals allow-downloads"
          referrerpolicy="no-referrer"
        />
      )}
    </figure>
  )
}
