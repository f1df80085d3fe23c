import { posix } from 'node:path'
import type { Guest } from '@dormouse/engine'

/** A path of a request, and the user that it belongs to. Undefined: the default user of the sandbox. */
export interface UserPath {
  readonly path: string
  readonly user?: string
}

const homeOf = (user: string) => (user === 'root' ? '/root' : `/home/${user}`)

/** Makes a path absolute. Relative ones, and those with `~`, are below the home of the user. */
export async function absolutePath(guest: Guest, { path, user }: UserPath): Promise<string> {
  if (path.startsWith('/')) return posix.normalize(path).replace(/(.)\/$/, '$1')
  const relative = path.replace(/^~(?:\/|$)/, '')
  if (user !== undefined) return posix.resolve(homeOf(user), relative)
  // The agent knows the home of its default user.
  const { path: home } = await guest.files.stat('.', { follow: true })
  return posix.resolve(home, relative)
}
