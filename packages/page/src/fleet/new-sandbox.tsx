import { useRef, useState } from 'preact/hooks'
import { client } from '../client.ts'
import { Glyph } from '../parts/icons.tsx'
import { attempt } from '../state/toasts.ts'

/** Creates a sandbox, with a name and another template if wanted. */
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
    dialog.current?.close()
    await attempt('Create', async () => {
      const made = await client.createSandbox({
        template: String(fields.get('template')),
        ...(name !== '' && { name }),
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
