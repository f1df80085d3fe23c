import { describe, expect, test } from 'vitest'
import { dependsOnHome, refuseSystemPath } from './system-paths.ts'

describe('removing what the system consists of', () => {
  test.each(['/', '//', '/etc', '/usr/', '/usr/bin', '/root/..', '/tmp/../usr/lib', '/./root', '/home'])(
    '%s is refused with the name of the field',
    (path) => {
      expect(() => refuseSystemPath('path', path)).toThrow(
        expect.objectContaining({ code: 'invalid_argument', message: expect.stringMatching(/^path: /) }),
      )
    },
  )

  test.each(['/root/a', '/etc/hosts', '/data', '/usr/local/bin/mine', '/tmp/x/', 'relative', '/opt'])(
    '%s is not',
    (path) => {
      expect(refuseSystemPath('path', path)).toBeUndefined()
    },
  )

  test('only paths that lead to the home or out of it depend on it', () => {
    for (const path of ['.', './', '..', '../etc', 'a/../..']) expect(dependsOnHome(path), path).toBe(true)
    for (const path of ['/', '/..', 'a', 'a/..b', '...', './a']) expect(dependsOnHome(path), path).toBe(false)
  })
})
