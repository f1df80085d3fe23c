import { createReadStream } from 'node:fs'
import { type Dormouse, Sandbox } from 'dormouse'
import { testNode } from './put-node.ts'

/** Makes a template with the Node.js that the set-up of the tests fetched, beside everything of "python". */
export async function makeNodeTemplate(client: Dormouse, name: string): Promise<void> {
  await using sandbox = await Sandbox.create({ ephemeral: true }, { client })
  const node = createReadStream(await testNode())
  await sandbox.files.write('/usr/local/bin/node', node, { mode: '755' })
  const snapshot = await sandbox.snapshot()
  await client.templates.create({ name, snapshotId: snapshot.id })
  await client.snapshots.delete(snapshot.id)
}
