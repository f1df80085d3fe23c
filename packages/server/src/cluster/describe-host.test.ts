import { cp, mkdtemp, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { Sandboxes } from '../sandbox/sandboxes.ts'
import { describeHost } from './describe-host.ts'

it('a copy of a data directory at the same path is another instance', async () => {
  const parent = await mkdtemp(join(tmpdir(), 'dormouse-instance-'))
  const dataDir = await mkdtemp(join(parent, 'data-'))
  const instance = () =>
    describeHost({
      ...{ id: 'host', dataDir, sandboxes: new Sandboxes(), abilities: () => ({ abilities: undefined }) },
      ...{ address: () => '', isCordoned: () => false },
    })().instance
  const before = instance()
  expect(instance()).toBe(before)
  await cp(dataDir, join(parent, 'copy'), { recursive: true })
  await rename(dataDir, join(parent, 'original'))
  await rename(join(parent, 'copy'), dataDir)
  expect(instance()).not.toBe(before)
  await rm(parent, { recursive: true })
})
