import { readFile, writeFile } from 'node:fs/promises'

/** Replaces what is between the markers with this name in a page of docs. */
export async function writeSection(name, text, pageName = 'benchmarks.md') {
  const path = new URL(`../docs/${pageName}`, import.meta.url)
  const page = await readFile(path, 'utf8')
  const section = new RegExp(`(<!-- ${name} -->\n)[^]*?(\n?<!-- /${name} -->)`)
  if (!section.test(page)) throw new Error(`docs/${pageName} has no section ${name}`)
  await writeFile(
    path,
    page.replace(section, (_all, open) => `${open}${text}\n<!-- /${name} -->`),
  )
}
