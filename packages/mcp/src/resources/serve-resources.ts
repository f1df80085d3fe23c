import { isUtf8 } from 'node:buffer'
import type { Server } from '@modelcontextprotocol/sdk/server/index.js'
import {
  ErrorCode,
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  McpError,
  ReadResourceRequestSchema,
  type ReadResourceResult,
  type Resource,
} from '@modelcontextprotocol/sdk/types.js'
import { DormouseError, Sandbox } from 'dormouse'
import type { Conversation } from '../conversation.ts'
import { imageType } from '../image-type.ts'
import { FILE_READ_MAX_BYTES, RESOURCES_LISTED_MAX } from '../limits.ts'
import { plotsOf, recentPlots } from './plots.ts'
import {
  FILE_TEMPLATE,
  fileUri,
  PLOT_TEMPLATE,
  parseResourceUri,
  plotUri,
  type ResourceUri,
} from './resource-uri.ts'

/** The code of the protocol for a resource that does not exist. */
const RESOURCE_NOT_FOUND = -32002

const TEMPLATES = [
  {
    uriTemplate: FILE_TEMPLATE,
    name: 'file',
    title: 'A file of a sandbox',
    description: 'A sandbox by its id or name, and an absolute path in it.',
  },
  {
    uriTemplate: PLOT_TEMPLATE,
    name: 'plot',
    title: 'An image that a run displayed',
    description: 'A sandbox by its id or name, a run, and the number of the image from 0.',
  },
]

/** Serves files and plots of sandboxes as resources. Listing them neither creates nor wakes a sandbox. */
export function serveResources(server: Server, conversation: Conversation): void {
  server.setRequestHandler(ListResourceTemplatesRequestSchema, () => ({ resourceTemplates: TEMPLATES }))
  server.setRequestHandler(ListResourcesRequestSchema, async (_request, { signal }) => ({
    resources: await withProtocolErrors(() => listResources(conversation, signal)),
  }))
  server.setRequestHandler(ReadResourceRequestSchema, async ({ params: { uri } }, { signal }) => {
    const parsed = parseResourceUri(uri)
    if (parsed === undefined)
      throw new McpError(ErrorCode.InvalidParams, `uri: is neither ${FILE_TEMPLATE} nor ${PLOT_TEMPLATE}`)
    return await withProtocolErrors(async () => {
      const sandbox = await Sandbox.connect(parsed.sandbox, { client: conversation.client, signal })
      return { contents: [{ uri, ...(await readResource(sandbox, parsed, signal)) }] }
    })
  })
}

async function listResources(conversation: Conversation, signal: AbortSignal): Promise<Resource[]> {
  const sandbox = await conversation.findOwn(signal)
  if (sandbox === undefined) return []
  const name = sandbox.name ?? sandbox.id
  const plots = (await recentPlots(sandbox, signal)).flatMap(({ runId, finishedAt, images }) =>
    images.map(({ mimeType }, index) => ({
      uri: plotUri(name, runId, index),
      name: `plot ${index} of ${runId}`,
      mimeType,
      ...(finishedAt !== undefined && { annotations: { lastModified: finishedAt } }),
    })),
  )
  if (sandbox.info.state !== 'running') return plots
  const files = (await sandbox.files.list('/root', { signal }))
    .filter(({ type }) => type === 'file')
    .slice(0, RESOURCES_LISTED_MAX)
    .map(({ path, name: file, sizeBytes, modifiedAt }) => ({
      ...{ uri: fileUri(name, path), name: file, size: sizeBytes, annotations: { lastModified: modifiedAt } },
    }))
  return [...files, ...plots]
}

type Content =
  | Omit<Extract<ReadResourceResult['contents'][number], { text: string }>, 'uri'>
  | Omit<Extract<ReadResourceResult['contents'][number], { blob: string }>, 'uri'>

async function readResource(sandbox: Sandbox, wanted: ResourceUri, signal: AbortSignal): Promise<Content> {
  if (wanted.type === 'plot') {
    const image = (await plotsOf(sandbox, wanted.run, signal)).images[wanted.index]
    if (image !== undefined) return { mimeType: image.mimeType, blob: image.data }
    throw new DormouseError('not_found', `The run ${wanted.run} displayed no image ${wanted.index}`)
  }
  const { sizeBytes } = await sandbox.files.stat(wanted.path, { signal })
  if (sizeBytes > FILE_READ_MAX_BYTES)
    throw new DormouseError(
      'too_large',
      `${wanted.path} has ${sizeBytes} bytes; a resource has at most ${FILE_READ_MAX_BYTES}. Read parts of it with read_file.`,
    )
  const bytes = Buffer.from(await sandbox.files.readBytes(wanted.path, { signal }))
  if (isUtf8(bytes) && !bytes.includes(0)) return { mimeType: 'text/plain', text: bytes.toString('utf8') }
  return { mimeType: imageType(bytes) ?? 'application/octet-stream', blob: bytes.toString('base64') }
}

async function withProtocolErrors<Answer>(work: () => Promise<Answer>): Promise<Answer> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof DormouseError)) throw error
    const code = error.code === 'not_found' ? RESOURCE_NOT_FOUND : ErrorCode.InvalidRequest
    throw new McpError(code, `${error.code}: ${error.message}`)
  }
}
