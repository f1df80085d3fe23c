import { hasErrorCode } from '@dormouse/contracts'
import type { Guest } from '@dormouse/engine'

/**
 * Creates something for a user. E2B's agent does this as root and gives the result to the user. So where the user may
 * not write, root does, and `path` gets the user as its owner.
 */
export async function asOwner<Value>(
  guest: Guest,
  { path, user }: { path: string; user: string | undefined },
  work: (as: { user?: string }) => Promise<Value>,
): Promise<Value> {
  try {
    return await work(user === undefined ? {} : { user })
  } catch (error) {
    if (!hasErrorCode(error, 'permission_denied')) throw error
    const value = await work({ user: 'root' })
    await giveTo(guest, path, user ?? (await defaultUser(guest)))
    return value
  }
}

async function giveTo(guest: Guest, path: string, user: string): Promise<void> {
  const args = ['chown', `${user}:`, '--', path]
  for await (const event of guest.processes.stream({ args, user: 'root' })) if (event.type === 'exit') return
}

async function defaultUser(guest: Guest): Promise<string> {
  const context = (await guest.contexts.list()).find(({ context }) => context === 'default')
  return context?.user ?? 'root'
}
