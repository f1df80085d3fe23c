import { signal } from '@preact/signals'
import { client, whenSignedOut } from '../client.ts'

type SessionInfo = Awaited<ReturnType<typeof client.session>>

/** `undefined`: not known yet; `null`: no user is signed in. */
export const session = signal<SessionInfo | null | undefined>(undefined)
/** Why the last sign-in failed. */
export const signInProblem = signal<string | undefined>(undefined)

whenSignedOut(() => {
  session.value = null
})

/** Uses the one-time code in the address, if there is one, then the cookie. */
export async function openSession(): Promise<void> {
  const code = /^#code=([\w-]+)$/.exec(location.hash)?.[1]
  if (code !== undefined) {
    // The code is used up: it must not stay in the history.
    history.replaceState(null, '', location.pathname)
    if (await signIn({ code })) return
  }
  try {
    session.value = await client.session()
  } catch {
    session.value = null
  }
}

export async function signIn(credential: { apiKey: string } | { code: string }): Promise<boolean> {
  signInProblem.value = undefined
  try {
    await client.http.json({ method: 'POST', path: '/v1/session', json: credential })
    session.value = await client.session()
    return true
  } catch (error) {
    signInProblem.value = error instanceof Error ? error.message : String(error)
    session.value = null
    return false
  }
}

export async function signOut(): Promise<void> {
  await client.http.delete({ path: '/v1/session' }).catch(() => {})
  session.value = null
}

/** A key with the scope `read` sees everything of its owner and changes nothing. */
export function mayRun(): boolean {
  return session.value?.scopes.some((scope) => scope === 'run' || scope === 'admin') === true
}

export function isAdmin(): boolean {
  return session.value?.scopes.includes('admin') === true
}
