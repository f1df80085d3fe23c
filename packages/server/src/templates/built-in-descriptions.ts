import type { TemplateDescription } from './templates.ts'

/** Owns the templates that every server builds for all keys. No key has this id. */
export const BUILT_IN_OWNER = 'dormouse'

/** What a host fetches for builds: sandboxes may not trust the host's registry. */
export type ArchiveName = 'node' | 'npm' | 'typescript'

export interface Archive {
  readonly version: string
  /** On the host. */
  readonly file: string
}

/** Python libraries that not every host can fetch. A template is built without one that is missing. */
export type LibraryName = 'polars'

export interface Library {
  readonly version: string
  /** Wheels on the host. */
  readonly files: readonly string[]
}

/** What a description is made from. */
export interface BuiltInParts {
  readonly archives: Readonly<Record<ArchiveName, Archive>>
  readonly libraries: Readonly<Partial<Record<LibraryName, Library>>>
}

export interface BuiltIn {
  /** What the build unpacks. */
  readonly archives: readonly ArchiveName[]
  /** What the build installs where the host can fetch it. */
  readonly libraries: readonly LibraryName[]
  readonly describe: (parts: BuiltInParts) => TemplateDescription
}

const NOTHING = { packages: [], pip: [], commands: [], preload: [] }
const UPLOADS = '/tmp/dormouse-archives'
const MODULES = '/usr/local/lib/node_modules'

const NODE: BuiltIn = {
  archives: ['node', 'npm', 'typescript'],
  libraries: [],
  describe: ({ archives: { node, npm, typescript } }) => ({
    ...NOTHING,
    name: 'node',
    description: `As "python", with Node.js ${node.version} LTS, npm ${npm.version}, TypeScript ${typescript.version}, git and build-essential`,
    from: 'python',
    packages: ['build-essential'],
    uploads: Object.entries({ node, npm, typescript }).map(([name, { file }]) => ({
      file,
      path: `${UPLOADS}/${name}.tgz`,
    })),
    commands: [
      `tar -xzf ${UPLOADS}/node.tgz -C /usr/local --strip-components=1 --no-same-owner package/bin package/include package/share`,
      `for name in npm typescript; do mkdir -p ${MODULES}/$name; tar -xzf ${UPLOADS}/$name.tgz -C ${MODULES}/$name --strip-components=1 --no-same-owner; done`,
      `cd /usr/local/bin; ln -sf ../lib/node_modules/npm/bin/npm-cli.js npm; ln -sf ../lib/node_modules/npm/bin/npx-cli.js npx`,
      `cd /usr/local/bin; ln -sf ../lib/node_modules/typescript/bin/tsc tsc; ln -sf ../lib/node_modules/typescript/bin/tsserver tsserver; chmod +x ${MODULES}/{npm,typescript}/bin/*`,
      // npm reads the global settings below its own prefix. The template has those of the host in /etc.
      `mkdir -p /usr/local/etc; [ ! -e /etc/npmrc ] || ln -sf /etc/npmrc /usr/local/etc/npmrc`,
      `rm -rf ${UPLOADS}; node --version; npm --version; tsc --version`,
    ],
  }),
}

const CODE: BuiltIn = {
  archives: [],
  libraries: [],
  describe: () => ({
    ...NOTHING,
    name: 'code',
    description:
      'As "node", with the tools of coding agents: ripgrep, fd, tree, cmake, sqlite3, tmux, patch, shellcheck',
    from: 'node',
    packages: [
      'cmake',
      'fd-find',
      'file',
      'patch',
      'pkg-config',
      'python3-dev',
      'python3-pytest',
      'ripgrep',
    ].concat(...[['shellcheck', 'sqlite3', 'tmux', 'tree', 'unzip', 'zip']]),
    commands: ['ln -sf /usr/bin/fdfind /usr/local/bin/fd'],
  }),
}

/** Debian testing has pyarrow, for its own Python. Only what that needs is newer than in "python". */
const TESTING = 'forky'
const DATA: BuiltIn = {
  archives: [],
  libraries: ['polars'],
  describe: ({ libraries: { polars } }) => ({
    ...NOTHING,
    name: 'data',
    description: `As "python", with pyarrow, statsmodels${polars === undefined ? '' : `, polars ${polars.version}`} and the program duckdb; Python and its libraries are those of Debian ${TESTING}`,
    from: 'python',
    commands: [
      `sed -n '/ trixie main/s/trixie/${TESTING}/p' /etc/apt/sources.list > /etc/apt/sources.list.d/${TESTING}.list`,
      `printf 'Package: *\\nPin: release n=${TESTING}\\nPin-Priority: 100\\n' > /etc/apt/preferences.d/${TESTING}`,
      `apt-get update && apt-get --yes --no-install-recommends install -t ${TESTING} python3-pyarrow python3-statsmodels duckdb $(dpkg-query -W -f '\${Package}\\n' 'python3-*' | grep -E '^python3-(ipython|matplotlib|numpy|openpyxl|pandas|pip|requests|scipy|sklearn|sympy|tqdm|venv)$')`,
      'cd /usr/lib/python3/dist-packages && rm -rf ./*-stubs pyarrow/tests statsmodels/*/tests',
      'python3 -c "import pyarrow.parquet, statsmodels.api, sklearn, pandas, IPython"',
    ],
    wheels: polars?.files ?? [],
    preload: ['pyarrow'],
  }),
}

/** In the order in which they are built: each after the one that it is built on. */
export const BUILT_INS: readonly BuiltIn[] = [NODE, CODE, DATA]
