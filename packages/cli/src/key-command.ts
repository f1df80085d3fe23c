import { toE2bKey } from '@dormouse/e2b'
import { clientFile, findClient, loadConfig, localUrl, readEnv, writeClient } from '@dormouse/server'
import { UsageError } from './client/cli-error.ts'
import type { CommandOutput } from './doctor-command.ts'
import { type KeyRequest, parseKeyArguments } from './keys/key-arguments.ts'
import { formatKeys } from './keys/key-table.ts'
import { withKeyAdmin } from './keys/with-key-admin.ts'

export interface KeyCommand {
  readonly dataDir: string
  readonly args: readonly string[]
  /** For data. */
  readonly stdout: CommandOutput
  /** For notes. */
  readonly stderr: CommandOutput
}

/** `dormouse key …`. Returns the exit status: 2 for a mistake on the command line. */
export async function keyCommand({ dataDir, args, stdout, stderr }: KeyCommand): Promise<number> {
  let request: KeyRequest
  try {
    request = parseKeyArguments(args)
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    const { code, message, hint, exitCode } = error
    const isJson = args.includes('--json')
    stderr.write(
      isJson
        ? `${JSON.stringify({ error: { code, message, hint } })}\n`
        : `dormouse: ${message}\n${hint === '' ? '' : `  ${hint}\n`}`,
    )
    return exitCode
  }
  const { result, text, note } = await perform(dataDir, request)
  stdout.write(request.json ? `${JSON.stringify(result, null, 2)}\n` : text)
  if (note !== undefined && !request.json) stderr.write(`${note}\n`)
  return 0
}

async function perform(dataDir: string, request: KeyRequest) {
  return withKeyAdmin(dataDir, async (admin): Promise<{ result: unknown; text: string; note?: string }> => {
    switch (request.action) {
      case 'create': {
        const created = await admin.create(request.key)
        if (request.save) save(dataDir, created.key)
        const where = request.save ? ` It is also in ${clientFile(dataDir)}.` : ''
        const note = `Created key ${created.id} with the scope ${created.scopes.join(', ')}. The key is shown only now.${where}`
        const key = request.e2b ? toE2bKey(created.key) : created.key
        return { result: { ...created, key }, text: `${key}\n`, note }
      }
      case 'update': {
        const updated = await admin.update(request.id, request.change)
        return { result: updated, text: formatKeys([updated]) }
      }
      case 'list': {
        const keys = await admin.list()
        return { result: { keys }, text: formatKeys(keys) }
      }
      case 'revoke': {
        const revoked = await admin.revoke(request.id)
        return { result: revoked, text: '', note: `Revoked key ${revoked.id} (${revoked.name}).` }
      }
    }
  })
}

/** The server corrects the address at its next start. */
function save(dataDir: string, key: string): void {
  const config = loadConfig({ env: readEnv(), dataDir })
  writeClient(dataDir, { url: findClient(dataDir)?.url ?? localUrl(config, config.port), key })
}
