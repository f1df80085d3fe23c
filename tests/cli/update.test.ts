import { beforeAll, expect, test } from 'vitest'
import { useCommandLine } from './command-line.ts'

const cli = useCommandLine()
let id: string
beforeAll(async () => {
  id = (
    await cli.json(['create', 'box', '--disk', '32MiB', '--metadata', 'team=blue', '--expires-after', '9d'])
  ).id
})

test('create sets the disk limit, and update changes only the named settings', async () => {
  const made = await cli.json(['update', 'box', '--pids', '200'])
  expect(made).toMatchObject({
    limits: { pids: 200, diskBytes: 32 * 1024 ** 2 },
    metadata: { team: 'blue' },
    expires: { afterMs: 777_600_000 },
  })
  const changed = await cli.json([
    ...['update', 'box', '--memory', '1GiB', '--cpus', '0.5', '--idle', '1h', '--store-after', '2h'],
    ...[
      '--max-background',
      '3h',
      '--metadata',
      'team=red',
      '--metadata',
      'ring=1',
      '--expires-idle',
      '7d',
      '--at-memory-limit',
      'pause',
      '--ephemeral',
      '--wake-on-timer',
    ],
    ...['--keep-asleep', '10m', '--wake-on-data'],
  ])
  expect(changed).toMatchObject({
    name: 'box',
    limits: { ...made.limits, memoryBytes: 1024 ** 3, cpus: 0.5 },
    idleTimeoutMs: 3_600_000,
    storeAfterMs: 7_200_000,
    maxBackgroundMs: 10_800_000,
    wakeOnTimer: true,
    connections: { keepAsleepMs: 600_000, wakeOnData: true },
    atMemoryLimit: 'pause',
    metadata: { team: 'red', ring: '1' },
    expires: { idleMs: 604_800_000, action: 'delete' },
    ephemeral: true,
  })
  const undone = await cli.json([
    ...[
      'update',
      'box',
      '--no-metadata',
      '--no-expires',
      '--no-ephemeral',
      '--no-wake-on-timer',
      '--no-wake-on-data',
    ],
  ])
  expect(undone).toMatchObject({
    ...{ metadata: {}, ephemeral: false, wakeOnTimer: false, idleTimeoutMs: 3_600_000 },
    connections: { keepAsleepMs: 600_000, wakeOnData: false },
  })
  expect(undone).not.toHaveProperty('expires')
  expect(await cli.json(['update', 'box', '--no-name'])).not.toHaveProperty('name')
  const named = await cli.run(['update', id, '--name', 'box'])
  expect(named).toMatchObject({ status: 0, stdout: `${id}\n` })
  expect(named.stderr).toContain('Changed box')
})

test.each([
  [[], 'there is nothing to change'],
  [['--no-expires', '--expires-idle', '1h'], 'contradicts'],
  [['--disk', 'lots'], '4GiB'],
])('update box %j is refused with status 2', async (flags, message) => {
  const { status, stdout, stderr } = await cli.run(['update', 'box', ...flags])
  expect(stderr).toContain(message)
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
})

test('a sandbox that exceeded its disk limit wakes after the command in its error', async () => {
  // Allocated at once: a run that still writes when the server notices the excess would sleep with its sandbox.
  const write =
    'import os; kept = 41; os.posix_fallocate(os.open("/root/big", os.O_CREAT | os.O_WRONLY), 0, 48 << 20)'
  expect(await cli.run(['run', 'box', write])).toMatchObject({ status: 0 })
  await expect
    .poll(async () => (await cli.json(['why', 'box'])).state, { timeout: 30_000, interval: 500 })
    .toBe('standby')
  const refused = await cli.run(['run', 'box', 'kept'])
  expect(refused.status).toBe(1)
  expect(refused.stderr).toContain('has written')
  const [, command = ''] = /`dormouse (update SANDBOX --disk SIZE)`/.exec(refused.stderr) ?? []
  const typed = command.replace('SANDBOX', 'box').replace('SIZE', '512MiB').split(' ')
  expect(await cli.json(typed)).toMatchObject({ state: 'standby', limits: { diskBytes: 512 * 1024 ** 2 } })
  const run = await cli.run(['run', 'box', 'import os; os.unlink("/root/big"); kept + 1'])
  expect(run).toEqual({ status: 0, stdout: '42\n', stderr: '' })
})
