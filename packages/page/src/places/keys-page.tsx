import { useState } from 'preact/hooks'
import { client } from '../client.ts'
import { confirmed } from '../parts/confirm.tsx'
import { Table } from '../parts/table.tsx'
import { useRead } from '../parts/use-read.ts'
import { isAdmin, session } from '../state/session.ts'
import { attempt } from '../state/toasts.ts'
import { ago } from '../words.ts'

interface Key {
  readonly id: string
  readonly name: string
  readonly scopes: readonly string[]
  readonly createdAt: string
  readonly revokedAt?: string
}

/** API keys. Only an admin sees them. */
export function KeysPage() {
  const [made, setMade] = useState<string>()
  const { value, problem, again } = useRead(
    (signal) =>
      client.http.json<{ items: readonly Key[] }>({ path: '/v1/keys', query: { limit: 1000 }, signal }),
    'keys',
  )
  const revoke = async ({ id, name }: Key) => {
    const text = 'Its sessions and streams end at once. Its sandboxes stay.'
    if (!(await confirmed(`Revoke ${name}?`, text, 'Revoke'))) return
    if (await attempt('Revoke', () => client.http.delete({ path: `/v1/keys/${id}` }))) again()
  }
  const create = async (event: SubmitEvent) => {
    event.preventDefault()
    const form = event.currentTarget as HTMLFormElement
    const data = new FormData(form)
    const json = { name: String(data.get('name')).trim(), scopes: [String(data.get('scope'))] }
    await attempt('Create', async () => {
      const created = await client.http.json<{ key: string }>({ method: 'POST', path: '/v1/keys', json })
      setMade(created.key)
      form.reset()
      again()
    })
  }
  return (
    <section>
      <header class="head">
        <h1>Keys</h1>
        {problem !== undefined && <span class="problem">{problem}</span>}
      </header>
      {made !== undefined && (
        <p class="panel spaced made" role="status">
          This is the only time that the key is shown: <code>{made}</code>
        </p>
      )}
      {isAdmin() && (
        <Table
          label="Keys"
          head={['Name', 'Id', 'Scopes', 'Made', 'State', 'Actions']}
          empty="Reading keys…"
          rows={(value?.items ?? []).map((key) => [
            key.name,
            <code key="id">{key.id}</code>,
            key.scopes.join(', '),
            ago(key.createdAt),
            key.revokedAt === undefined ? 'valid' : `revoked ${ago(key.revokedAt)}`,
            key.revokedAt === undefined && key.id !== session.value?.keyId && (
              <button key="revoke" type="button" class="danger" onClick={() => void revoke(key)}>
                Revoke
              </button>
            ),
          ])}
        />
      )}
      {isAdmin() && <NewKey onSubmit={(event) => void create(event)} />}
    </section>
  )
}

function NewKey({ onSubmit }: { onSubmit: (event: SubmitEvent) => void }) {
  return (
    <form class="panel spaced" onSubmit={(event) => onSubmit(event as unknown as SubmitEvent)}>
      <h2>New key</h2>
      <div class="fields">
        <label>
          Name <input name="name" required maxLength={63} />
        </label>
        <label>
          Scope
          <select name="scope">
            <option value="read">read: look</option>
            <option value="run">run: use sandboxes</option>
            <option value="admin">admin: everything</option>
          </select>
        </label>
        <button type="submit">Create</button>
      </div>
    </form>
  )
}
