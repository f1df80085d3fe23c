// Dormouse as a provider of ComputeSDK, whose benchmarks and programs then run against it.
import assert from 'node:assert/strict'
import { dormouse } from 'dormouse/computesdk'

const provider = dormouse()
const sandbox = await provider.sandbox.create({ metadata: { purpose: 'example' }, envs: { WHO: 'world' } })
const { stdout, exitCode } = await sandbox.runCommand('echo hello $WHO')
assert.deepEqual({ stdout, exitCode }, { stdout: 'hello world\n', exitCode: 0 })
console.log(stdout.trim())
assert.equal((await sandbox.runCommand('exit 3')).exitCode, 3)

await sandbox.filesystem.mkdir('/tmp/a/b')
await sandbox.filesystem.writeFile('/tmp/a/b/c.txt', 'text')
assert.equal(await sandbox.filesystem.readFile('/tmp/a/b/c.txt'), 'text')
assert.deepEqual(
  (await sandbox.filesystem.readdir('/tmp/a/b')).map(({ name, type }) => [name, type]),
  [['c.txt', 'file']],
)
assert.equal(await sandbox.filesystem.exists('/tmp/a/b/d.txt'), false)
await sandbox.filesystem.remove('/tmp/a')

const { status } = await sandbox.getInfo()
assert.equal(status, 'running')
assert.equal((await provider.sandbox.list()).length, 1)
const again = await provider.sandbox.getById(sandbox.sandboxId)
assert.equal(again.sandboxId, sandbox.sandboxId)
assert.equal(await provider.sandbox.getById('sb-aaaaaaaaaaaaaaaa'), null)
const snapshot = await provider.snapshot.create(sandbox.sandboxId, { name: 'base' })
const copy = await provider.sandbox.create({ snapshotId: snapshot.id })
await copy.destroy()
await provider.snapshot.delete(snapshot.id).catch(() => {})
await sandbox.destroy()
