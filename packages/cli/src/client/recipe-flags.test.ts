import { expect, it } from 'vitest'
import type { Call } from './call.ts'
import { readLogins } from './recipe-flags.ts'

/** Without a terminal, so that nothing can be asked. */
function logins(given: string[], password?: string) {
  const env = password === undefined ? {} : { DORMOUSE_REGISTRY_PASSWORD: password }
  return readLogins({ io: { env, stdin: { isTTY: false } } } as unknown as Call, given)
}

it('reads a user, and the registry behind the last @', async () => {
  expect(await logins(['web'], 'a')).toEqual({ username: 'web', password: 'a' })
  const named = await logins(['web@registry.example:5000'], 'a')
  expect(named).toEqual({ username: 'web', password: 'a', registry: 'registry.example:5000' })
  expect(await logins(['me@corp.example@registry.example'], 'a')).toMatchObject({
    username: 'me@corp.example',
  })
})

it('takes one password a line for several logins', async () => {
  expect(await logins(['a@one.example', 'b@two.example'], 'first\nsecond\n')).toEqual([
    { username: 'a', password: 'first', registry: 'one.example' },
    { username: 'b', password: 'second', registry: 'two.example' },
  ])
})

it('refuses a login without a user, a registry or a password', async () => {
  await expect(logins(['@registry.example'], 'a')).rejects.toThrow('is not USER or USER@REGISTRY')
  await expect(logins(['web@'], 'a')).rejects.toThrow('is not USER or USER@REGISTRY')
  await expect(logins(['a@one.example', 'b@two.example'], 'first')).rejects.toThrow(
    '--login b@two.example needs',
  )
})
