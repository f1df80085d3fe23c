import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DormouseError, type Material, type Materials, materialSchema } from '@dormouse/contracts'

/** More packages than any one machine has installed. */
const MATERIALS_MAX = 20_000
/** File in which pip reports what it installed, when a build asks for that. The program below reads it. */
export const PIP_REPORT = '/var/tmp/dormouse-pip.json'
const FILE = 'materials.json'

/**
 * A Python program that prints the packages of the system that it runs in, one JSON array each: type, name, version,
 * architecture, SHA-256. The digests of .deb files come from apt's package lists, so it runs before the lists are
 * removed.
 */
export const MATERIALS_PROGRAM = `
import glob, json, re, subprocess
from importlib import metadata

def ask(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout

def tell(*fields):
    print(json.dumps(fields))

form = "\${Package}\\t\${Version}\\t\${Architecture}\\t\${db:Status-Status}\\n"
rows = [line.split("\\t") for line in ask("dpkg-query", "-W", "-f", form).splitlines()]
debs = [tuple(row[:3]) for row in rows if row[3:] == ["installed"]]
digests = {}
for start in range(0, len(debs), 200):
    names = [f"{name}{'' if kind == 'all' else ':' + kind}={version}" for name, version, kind in debs[start:start + 200]]
    for stanza in ask("apt-cache", "show", *names).split("\\n\\n"):
        fields = dict(re.findall(r"^(Package|Version|Architecture|SHA256): (.*)$", stanza, re.M))
        if "SHA256" in fields:
            key = (fields.get("Package"), fields.get("Version"), fields.get("Architecture"))
            digests.setdefault(key, fields["SHA256"])
for deb in debs:
    tell("deb", *deb, digests.get(deb))

def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()

wheels = {}
try:
    with open("${PIP_REPORT}") as report:
        for item in json.load(report)["install"]:
            hashes = item["download_info"].get("archive_info", {}).get("hashes", {})
            wheels[plain(item["metadata"]["name"]), item["metadata"]["version"]] = hashes.get("sha256")
except OSError:
    pass
for found in metadata.distributions(path=glob.glob("/usr/local/lib/python3*/*-packages")):
    if found.metadata["Name"]:
        key = plain(found.metadata["Name"]), found.version
        tell("wheel", *key, None, wheels.get(key))
`

/**
 * Parses the output of the program. `base` has the digests of packages that were there before. A build can forge all of
 * it: the list says what the build claims to have used, not that it can be trusted. Throws `setup_failed` when it is
 * not such a list.
 */
export function parseMaterials(text: string, base: readonly Material[] = []): Materials {
  const known = new Map(base.map((material) => [identity(material), material.sha256]))
  const lines = text.split('\n').filter((line) => line !== '')
  if (lines.length > MATERIALS_MAX) throw notAList(`it has more than ${MATERIALS_MAX} entries`)
  const items = new Map<string, Material>()
  for (const line of lines) {
    const material = parseLine(line)
    const id = identity(material)
    const sha256 = material.sha256 ?? known.get(id)
    items.set(id, { ...material, ...(sha256 !== undefined && { sha256 }) })
  }
  return digestOf([...items.values()])
}

function parseLine(line: string): Material {
  try {
    const [type, name, version, architecture, sha256] = JSON.parse(line)
    return materialSchema.parse({
      ...{ type, name, version },
      ...(architecture !== null && { architecture }),
      ...(sha256 !== null && { sha256 }),
    })
  } catch (cause) {
    throw notAList('an entry cannot be read', cause)
  }
}

function notAList(reason: string, cause?: unknown): DormouseError {
  return new DormouseError('setup_failed', `The list of the template's packages is damaged: ${reason}.`, {
    cause,
  })
}

function digestOf(found: readonly Material[]): Materials {
  const items = [...found].sort((one, other) => (identity(one) < identity(other) ? -1 : 1))
  const hash = createHash('sha256')
  for (const item of items) hash.update(`${identity(item)} ${item.sha256 ?? '-'}\n`)
  return { sha256: hash.digest('hex'), items }
}

function identity({ type, name, version, architecture }: Material): string {
  return `${type} ${name} ${version} ${architecture ?? '-'}`
}

/** The content of materials.json. It is a separate file, so that reading template.json stays cheap. */
export function encodeMaterials({ items }: Materials): string {
  return `[\n${items.map((item) => `  ${JSON.stringify(item)}`).join(',\n')}\n]\n`
}

export function materialsFile(buildDirectory: string): string {
  return join(buildDirectory, FILE)
}

/** Returns undefined for templates built before such lists existed. */
export async function readMaterials(buildDirectory: string): Promise<Materials | undefined> {
  const text = await readFile(materialsFile(buildDirectory), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error
    return undefined
  })
  if (text === undefined) return undefined
  try {
    return digestOf(materialSchema.array().parse(JSON.parse(text)))
  } catch (cause) {
    throw notAList('it cannot be read', cause)
  }
}
