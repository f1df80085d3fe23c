import { readdir } from 'node:fs/promises'
import { CONTRACT_PARTS } from '@dormouse/engine/contract'
import { expect, test } from 'vitest'

test('every part of the contract has a file of its own, so that they run beside each other', async () => {
  const files = await readdir(new URL('.', import.meta.url))
  const parts = files.map((name) => /^contract-(\w+)\.test\.ts$/.exec(name)?.[1])
  expect(parts.filter((part) => part !== undefined).sort()).toEqual([...CONTRACT_PARTS].sort())
})
