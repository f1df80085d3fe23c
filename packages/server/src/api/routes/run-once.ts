import type { ErrorCode, RunEvent } from '@dormouse/contracts'
import { runOnceSchema, runResultSchema } from '@dormouse/contracts/http'
import type { FastifyBaseLogger } from 'fastify'
import type { SandboxHandle } from '../../sandbox/sandbox-handle.ts'
import { negotiate } from '../accept.ts'
import { disconnected, NDJSON, SSE, sendEvents } from '../event-stream.ts'
import { RUN_BODY_MAX_BYTES } from '../limits.ts'
import type { Routes } from '../route.ts'
import { eventContent, JSON_TYPE } from './runs.ts'

/** Longer than any pause of a client between two packets. The sandbox is deleted earlier in any case. */
const ABANDONED_MS = 15_000

const ERRORS: ErrorCode[] = [
  'template_not_found',
  'isolation_unavailable',
  'isolation_unsupported',
  'conflict',
  'not_found',
  'not_acceptable',
  'limit_reached',
  'language_missing',
  'agent_unreachable',
  'run_unfinished',
  'overloaded',
  'no_space',
]

export const runOnceRoutes: Routes = (app, { sandboxes, runs, policyDefaults, defaultLimits }) => {
  app.post(
    '/v1/run',
    {
      config: { scope: 'run', errors: ERRORS },
      bodyLimit: RUN_BODY_MAX_BYTES,
      schema: {
        operationId: 'runOnce',
        summary: 'Run code in a new sandbox',
        description:
          'Creates a sandbox, runs the code, answers and deletes the sandbox, also when the run fails or the caller disconnects.',
        tags: ['runs'],
        body: runOnceSchema,
        response: {
          200: {
            description: 'The whole run as JSON when it has ended, or its events as a stream.',
            content: { [JSON_TYPE]: { schema: runResultSchema }, ...eventContent },
          },
        },
      },
    },
    async (request, reply) => {
      const type = negotiate(request.headers.accept, [JSON_TYPE, NDJSON, SSE])
      const { template, isolation, env, volumes, secrets, ...rest } = request.body
      const { limits, network = policyDefaults.network, ...wanted } = rest
      const gone = disconnected(reply)
      const { sandbox } = await sandboxes.create(
        {
          ...{ template, isolation, env, volumes, network, secrets },
          limits: { ...defaultLimits(request.key), ...limits },
          ...{ name: undefined, metadata: {}, ephemeral: true },
          ...{ idleTimeoutMs: 0, storeAfterMs: 0, maxBackgroundMs: 0 },
          ...{ wakeOnTimer: false, atMemoryLimit: 'kill', checkpointEveryMs: 0 },
          connections: policyDefaults.connections,
          // If the server dies, the next one deletes the sandbox once nothing runs in it.
          expires: { idleMs: ABANDONED_MS, action: 'delete' },
        },
        request.key,
        gone,
      )
      const remove = removeOnce(sandbox, request.log)
      try {
        const run = await runs.start(sandbox, wanted)
        if (type === JSON_TYPE) return await run.result(gone)
        // Deleted before the stream ends: when the caller has the answer, it is gone.
        await sendEvents(request, reply, type, followedBy(run.events({ signal: gone }), remove))
        return reply
      } finally {
        await remove()
      }
    },
  )
}

/** Deletes the sandbox at the first call; later calls wait for the same deletion. */
function removeOnce(sandbox: SandboxHandle, log: FastifyBaseLogger): () => Promise<void> {
  let removal: Promise<void> | undefined
  return () => {
    removal ??= sandbox
      .deleteSoon()
      .catch((err: unknown) => log.error({ err }, 'a sandbox for one run could not be deleted'))
    return removal
  }
}

async function* followedBy(
  events: AsyncIterable<RunEvent>,
  last: () => Promise<void>,
): AsyncIterable<RunEvent> {
  yield* events
  await last()
}
