// Writes http.md from the OpenAPI document of a running server: node docs/make-http.mjs [http://127.0.0.1:7070]
import { writeFile } from 'node:fs/promises'
import { pathToFileURL } from 'node:url'
import { wrapProse } from './wrap-prose.mjs'

const INTRODUCTION = `# HTTP

\`node docs/make-http.mjs\` writes this page from the OpenAPI document that every server serves at \`/openapi.json\`. That document has all fields, responses and errors. A test keeps this page up to date.

Send \`Authorization: Bearer dm_…\` with every request. Bodies are JSON, and the server refuses unknown fields. Every failure has [a code](errors.md). Name a sandbox by its id or its name. A request that needs the sandbox awake wakes it. *Scope* is what [the key](configuration.md#keys) must have: \`read\`, \`run\` or \`admin\`; \`open\` needs no key.
`

/** @param {{ tags: { name: string, description: string }[], paths: Record<string, Record<string, any>> }} document */
export function httpReference({ tags, paths }) {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  )
  const sections = tags.flatMap(({ name, description }) => {
    const rows = operations
      .filter(({ operation }) => operation.tags?.[0] === name)
      .map(
        ({ path, method, operation }) =>
          `| \`${method} ${path}\` | ${operation.summary} | ${operation['x-scope'] ?? ''} |`,
      )
    if (rows.length === 0) return []
    return [`## ${name}\n\n${description}\n\n| route | does | scope |\n|---|---|---|\n${rows.join('\n')}\n`]
  })
  return wrapProse([INTRODUCTION, ...sections].join('\n'))
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const [server = 'http://127.0.0.1:7070'] = process.argv.slice(2)
  const answer = await fetch(new URL('/openapi.json', server))
  await writeFile(new URL('http.md', import.meta.url), httpReference(await answer.json()))
}
