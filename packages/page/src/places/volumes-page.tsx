import type { Volume } from 'dormouse'
import { client } from '../client.ts'
import { confirmed } from '../parts/confirm.tsx'
import { Table } from '../parts/table.tsx'
import { useRead } from '../parts/use-read.ts'
import { Link } from '../router.tsx'
import { mayRun } from '../state/session.ts'
import { attempt } from '../state/toasts.ts'
import { ago, bytes } from '../words.ts'

const GIB = 1024 ** 3

/** Directories that outlive sandboxes. */
export function VolumesPage() {
  const { value, again } = useRead((signal) => client.volumes.list({ signal }).all(), 'volumes')
  const remove = async (name: string) => {
    if (!(await confirmed(`Delete ${name}?`, 'Its files are gone.', 'Delete'))) return
    if (await attempt('Delete', () => client.volumes.delete(name))) again()
  }
  const create = async (event: SubmitEvent) => {
    event.preventDefault()
    const form = event.currentTarget as HTMLFormElement
    const data = new FormData(form)
    const sizeBytes = Math.round(Number(data.get('size')) * GIB)
    const made = await attempt('Create', () =>
      client.volumes.create({ name: String(data.get('name')).trim(), ...(sizeBytes > 0 && { sizeBytes }) }),
    )
    if (!made) return
    form.reset()
    again()
  }
  return (
    <section>
      <header class="head">
        <h1>Volumes</h1>
      </header>
      <Table
        label="Volumes"
        head={['Name', 'Used', 'Size', 'Limit', 'Files', 'Kind', 'Mounted in', 'Made', 'Actions']}
        empty="There is no volume."
        rows={(value ?? []).map((one) => [
          one.name,
          bytes(one.bytes),
          bytes(one.sizeBytes),
          one.sizeLimit,
          one.files ?? '–',
          kindOf(one),
          one.usedBy.map((id) => (
            <Link key={id} to={`/sandboxes/${id}`}>
              {id}{' '}
            </Link>
          )),
          ago(one.createdAt),
          mayRun() && (
            <button key="delete" type="button" class="danger" onClick={() => void remove(one.name)}>
              Delete
            </button>
          ),
        ])}
      />
      {mayRun() && <NewVolume onSubmit={(event) => void create(event)} />}
    </section>
  )
}

/** Whether it is a clone or a snapshot, and who else uses it. */
function kindOf({ readOnly, clonedFrom, access, sharedWith }: Volume): string {
  const kind = clonedFrom === undefined ? [] : [`${readOnly ? 'snapshot' : 'clone'} of ${clonedFrom}`]
  if (access !== 'own') kind.push(`shared with you: ${access}`)
  if (sharedWith.length > 0) kind.push(`shared with ${sharedWith.map(({ name }) => name).join(', ')}`)
  return kind.join('; ') || '–'
}

function NewVolume({ onSubmit }: { onSubmit: (event: SubmitEvent) => void }) {
  return (
    <form class="panel spaced" onSubmit={(event) => onSubmit(event as unknown as SubmitEvent)}>
      <h2>New volume</h2>
      <div class="fields">
        <label>
          Name <input name="name" required maxLength={63} />
        </label>
        <label>
          Size, GiB <input name="size" type="number" min="0" step="any" placeholder="default" />
        </label>
        <button type="submit">Create</button>
      </div>
    </form>
  )
}
