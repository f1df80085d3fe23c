import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { newSandboxId } from '@dormouse/contracts'
import { afterAll, expect, test } from 'vitest'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { BrokenDisk } from '../snapshot/break-files.ts'

const factory = await linuxFactory()
afterAll(() => factory.cleanUp())

test('a burrow whose record cannot be read, or is of another version, is left alone until it can', async () => {
  const first = await factory.open()
  const burrow = await first.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  await burrow.guest.runs.run({ code: 'x = 7; open("/root/f", "w").write("kept")' })
  await first[Symbol.asyncDispose]()
  const { record, upper } = factory.layout.burrow(burrow.id)
  const text = await readFile(record, 'utf8')

  const expectLeft = async () => {
    await using engine = await factory.open()
    expect(await engine.adoptBurrows()).toEqual({ burrows: [], lost: [], undone: [] })
    expect(existsSync(upper)).toBe(true)
  }
  {
    using _broken = new BrokenDisk({ read: (path) => path === record })
    await expectLeft()
  }
  await writeFile(record, JSON.stringify({ ...JSON.parse(text), formatVersion: 2 }))
  await expectLeft()
  await writeFile(record, text)

  await using engine = await factory.open()
  const [adopted] = (await engine.adoptBurrows()).burrows
  const { stdout } = await adopted!.guest.runs.run({ code: 'print(x, open("/root/f").read())' })
  expect(stdout).toBe('7 kept\n')
  await adopted!.destroy()
})
