import { clientFile, findClient, loadConfig, localUrl, readEnv, writeClient } from '@dormouse/server'
import type { CommandOutput } from './doctor-command.ts'
import { KEY_USAGE, type KeyRequest, KeyUsageError, parseKeyArguments } from './keys/key-arguments.ts'
import { formatKeys } from './keys/key-table.ts'
import { withKeyAdmin } from './keys/with-key-admin.ts'

export interface KeyCommand {
  readonly dataDir: string
  readonly args: readonly string[]
  /** Data. */
  readonly stdout: CommandOutput
  /** Notes. */
  readonly stderr: CommandOutput
}

/** `dormouse key …`. Answers the exit status: 2 for what was typed wrong. */
export async function keyCommand({ dataDir, args, stdout, stderr }: KeyCommand): Promise<number> {
  let request: KeyRequest
  try {
    request = parseKeyArguments(args)
  } catch (error) {
    if (!(error instanceof KeyUsageError)) throw error
    const told = { code: 'usage', message: error.message, hint: KEY_USAGE }
    stderr.write(
      args.includes('--json')
        ? `${JSON.stringify({ error: told })}\n`
        : `dormouse: ${error.message}\n${KEY_USAGE}`,
    )
    return 2
  }
  const { answer, text, note } = await perform(dataDir, request)
  stdout.write(request.json ? `${JSON.stringify(answer, null, 2)}\n` : text)
  if (note !== undefined && !request.json) stderr.write(`${note}\n`)
  return 0
}

async function perform(dataDir: string, request: KeyRequest) {
  return withKeyAdmin(dataDir, async (admin): Promise<{ answer: unknown; text: string; note?: string }> => {
    switch (request.action) {
      case 'create': {
        const created = await admin.create(request.key)
        if (request.save) save(dataDir, created.key)
        const where = request.save ? ` It is also in ${clientFile(dataDir)}.` : ''
        const note = `Key ${created.id} with the scope ${created.scopes.join(', ')}. It is shown only now.${where}`
        return { answer: created, text: `${created.key}\n`, note }
      }
      case 'update': {
        const updated = await admin.update(request.id, request.change)
        return { answer: updated, text: formatKeys([updated]) }
      }
      case 'list': {
        const keys = await admin.list()
        return { answer: { keys }, text: formatKeys(keys) }
      }
      case 'revoke': {
        const revoked = await admin.revoke(request.id)
        return { answer: revoked, text: '', note: `Key ${revoked.id} (${revoked.name}) is revoked.` }
      }
    }
  })
}

/** The server corrects the address at its next start. */
function save(dataDir: string, key: string): void {
  const config = loadConfig({ env: readEnv(), dataDir })
  writeClient(dataDir, { url: findClient(dataDir)?.url ?? localUrl(config, config.port), key })
}
