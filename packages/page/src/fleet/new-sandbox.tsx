import { useRef, useState } from 'preact/hooks'
import { client } from '../client.ts'
import { Glyph } from '../parts/icons.tsx'
import { attempt } from '../state/toasts.ts'

/** The server's words for what each one is; the first leaves it to the template and the server. */
const ISOLATIONS = [
  ['', 'default'],
  ['process', 'process: shares the kernel of the host'],
  ['microvm', 'microvm: a virtual machine'],
] as const

/** Creates a sandbox, with a name, another template and another isolation if wanted. */
export function NewSandbox({ onMade }: { onMade: (id: string) => void }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const [templates, setTemplates] = useState<readonly string[]>(['python'])
  const open = () => {
    dialog.current?.showModal()
    client.templates
      .list()
      .all()
      .then((all) => setTemplates(all.filter(({ state }) => state === 'ready').map(({ name }) => name)))
      .catch(() => {})
  }
  const create = async (event: SubmitEvent) => {
    event.preventDefault()
    const fields = new FormData(event.currentTarget as HTMLFormElement)
    const name = String(fields.get('name')).trim()
    const isolation = fields.get('isolation') as (typeof ISOLATIONS)[number][0]
    dialog.current?.close()
    await attempt('Create', async () => {
      const made = await client.createSandbox({
        template: String(fields.get('template')),
        ...(name !== '' && { name }),
        ...(isolation !== '' && { isolation }),
      })
      onMade(made.id)
    })
  }
  return (
    <>
      <button type="button" class="main" onClick={open}>
        <Glyph name="plus" /> New sandbox
      </button>
      <dialog ref={dialog} aria-label="New sandbox">
        <form onSubmit={(event) => void create(event as unknown as SubmitEvent)}>
          <h2>New sandbox</h2>
          <label>
            Name <input name="name" placeholder="optional" maxLength={63} />
          </label>
          <label>
            Template
            <select name="template">
              {templates.map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          </label>
          <IsolationField />
          <div class="buttons">
            <button type="button" onClick={() => dialog.current?.close()}>
              Cancel
            </button>
            <button type="submit" class="main">
              Create
            </button>
          </div>
        </form>
      </dialog>
    </>
  )
}

function IsolationField() {
  return (
    <label>
      Isolation
      <select name="isolation">
        {ISOLATIONS.map(([value, label]) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </select>
    </label>
  )
}
