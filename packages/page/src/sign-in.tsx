import { useState } from 'preact/hooks'
import { Mark } from './parts/icons.tsx'
import { signIn, signInProblem } from './state/session.ts'

export function SignIn() {
  const [apiKey, setApiKey] = useState('')
  const [isBusy, setIsBusy] = useState(false)
  const submit = async (event: Event) => {
    event.preventDefault()
    setIsBusy(true)
    await signIn({ apiKey: apiKey.trim() })
    setIsBusy(false)
  }
  return (
    <main class="sign-in">
      <form onSubmit={(event) => void submit(event)}>
        <Mark />
        <h1>Dormouse</h1>
        <p>
          Sign in with an API key, or run <code>dormouse open</code> on the server’s machine.
        </p>
        <label for="api-key">API key</label>
        <input
          id="api-key"
          type="password"
          autocomplete="current-password"
          placeholder="dm_…"
          value={apiKey}
          onInput={(event) => setApiKey(event.currentTarget.value)}
          autofocus
        />
        <button type="submit" class="main" disabled={isBusy || apiKey.trim() === ''}>
          Sign in
        </button>
        {signInProblem.value !== undefined && (
          <p class="problem" role="alert">
            {signInProblem.value}
          </p>
        )}
      </form>
    </main>
  )
}
