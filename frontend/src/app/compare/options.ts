// The options of a plot: what each is for, and where it applies.

export interface Context {
  // The kind of the plot.
  kind: string;
  // Recordings that are drawn.
  count: number;
  // Recordings of a group become one.
  isCombined: boolean;
  // Panels or pictures are made of values of keys.
  isGrid: boolean;
  // The sets of the page are the groups.
  isBySets: boolean;
  hasBaseline: boolean;
  isRatio: boolean;
}

export interface Option {
  name: string;
  label: string;
  explanation: string;
  kind: "text" | "list" | "number" | "check" | "choice";
  group: "Recordings" | "Series" | "Axes" | "Words";
  applies: (plot: Context) => boolean;
  choices?: readonly (readonly [string, string])[];
  placeholder?: string;
  // The name of a list of suggestions.
  suggestions?: string;
  // What a check box says where it is not touched.
  initially?: boolean;
}

const isOf = (...kinds: string[]) => ({ kind }: Context): boolean => kinds.includes(kind);
// Kinds that draw each series as it is, those with an axis of values, and those over time.
const isPlain = isOf("time-series", "cdf", "histogram", "box", "bar");
const hasValues = isOf("time-series", "cdf", "histogram", "box", "bar", "line", "ellipse", "scatter", "qq");
const isGroupable = ({ kind }: Context): boolean => !["stacked", "qq"].includes(kind);

export const COMBINERS = [
  ["", "As the plot says"],
  ["groups", "Groups: one value of each recording"],
  ["groups-points", "Groups: the mean at each step"],
  ["groups-concat", "Groups: all samples together"],
  ["series", "Series: one value of each recording"],
  ["both", "Groups by two keys"],
  ["batch", "Batches"],
  ["batch-concat", "Batches: all samples together"],
  ["batch-series", "Batches by series"],
] as const;

const REDUCERS = [
  "", "mean", "median", "min", "max", "std", "var", "pct95", "pct99", "span", "mean-span", "mean-zero", "cumsum",
  "fairness", "loss", "mos",
].map((name) => [name, name || "As the plot says"] as const);

const AS_SAID = [["", "As the plot says"]] as const;

export const OPTIONS: readonly Option[] = [
  {
    name: "combine", label: "Combine", kind: "choice", group: "Recordings", choices: COMBINERS,
    explanation: "How the recordings of a group become one.",
    applies: (plot) => plot.count > 1 && isGroupable(plot) && !plot.isGrid && !plot.hasBaseline,
  },
  {
    name: "group_by", label: "Group by", kind: "list", group: "Recordings", suggestions: "keys", placeholder: "title",
    explanation: "Keys of the metadata, with commas between: recordings with the same values are a group.",
    applies: (plot) => plot.count > 1 && isGroupable(plot) && !plot.isBySets && (plot.isGrid || !plot.hasBaseline),
  },
  {
    name: "reduce", label: "Reduce to", kind: "choice", group: "Recordings", choices: REDUCERS,
    explanation: "What makes one number of the series of a recording.",
    applies: (plot) => plot.isCombined,
  },
  {
    name: "panel_by", label: "A panel for each", kind: "list", group: "Recordings", suggestions: "panels", placeholder: "series",
    explanation: "Keys, also series and recording: one panel for each value, with equal axes.",
    applies: (plot) => isOf("time-series", "cdf")(plot),
  },
  {
    name: "figure_by", label: "A picture for each", kind: "list", group: "Recordings", suggestions: "panels", placeholder: "batch",
    explanation: "Keys: one picture for each value.",
    applies: (plot) => isOf("time-series", "cdf")(plot),
  },
  {
    name: "filters", label: "Only series", kind: "list", group: "Series", placeholder: "TCP*, !*EF",
    explanation: "Patterns of names, with commas between; those after ! are left out.",
    applies: () => true,
  },
  {
    name: "cut", label: "Idle time", kind: "choice", group: "Series",
    choices: [...AS_SAID, ["true", "Leave out"], ["false", "Draw"]],
    explanation: "The time before and after the load.",
    applies: () => true,
  },
  {
    name: "smooth", label: "Smooth over steps", kind: "number", group: "Series", placeholder: "0",
    explanation: "Steps of a moving average; 0: the samples as they are.",
    applies: isOf("time-series"),
  },
  {
    name: "smooth_across_load", label: "Smooth across the load", kind: "check", group: "Series",
    explanation: "Let averages run across the start and the end of the load, as Flent does.",
    applies: isOf("time-series"),
  },
  {
    name: "baseline", label: "Baseline", kind: "choice", group: "Series",
    explanation: "A recording that is taken from the others, step by step.",
    applies: (plot) => plot.count > 1 && isPlain(plot) && (!plot.isCombined || plot.isGrid),
  },
  {
    name: "ratio", label: "Divide by the baseline", kind: "check", group: "Series",
    explanation: "The ratio instead of the difference.",
    applies: (plot) => plot.hasBaseline && isPlain(plot),
  },
  {
    name: "limits", label: "Limits of values", kind: "list", group: "Axes", placeholder: "0:100 ms",
    explanation: "Ends of axes of values; with the unit where the plot has several, and commas between.",
    applies: hasValues,
  },
  {
    name: "zoom", label: "Percentiles", kind: "text", group: "Axes", placeholder: "5:95",
    explanation: "End axes of values at these percentiles; none: show everything.",
    applies: isOf("time-series", "cdf", "histogram", "box", "line"),
  },
  {
    name: "time", label: "Limits of time", kind: "text", group: "Axes", placeholder: "10:20",
    explanation: "Ends of the axis of time, in seconds since the start.",
    applies: isOf("time-series", "stacked"),
  },
  {
    name: "from_zero", label: "Zero", kind: "choice", group: "Axes",
    choices: [...AS_SAID, ["true", "Begin at zero"], ["false", "Begin at the data"]],
    explanation: "Where axes of values begin.",
    applies: (plot) => isOf("time-series", "box", "line")(plot) && !plot.hasBaseline,
  },
  {
    name: "log", label: "Logarithmic", kind: "check", group: "Axes",
    explanation: "A logarithmic axis of values.",
    applies: (plot) => isOf("time-series", "cdf", "histogram", "box", "bar", "line")(plot) && (!plot.hasBaseline || plot.isRatio),
  },
  {
    name: "absolute_time", label: "Time of day", kind: "check", group: "Axes",
    explanation: "Time of day (UTC) instead of seconds since the start.",
    applies: (plot) => isOf("time-series", "stacked")(plot) && !plot.isCombined && !plot.isGrid,
  },
  {
    name: "title", label: "Title", kind: "text", group: "Words", placeholder: "The plot's own",
    explanation: "Instead of the plot's own title.",
    applies: () => true,
  },
  {
    name: "note", label: "Note", kind: "text", group: "Words",
    explanation: "A text below the picture.",
    applies: () => true,
  },
  {
    name: "legend", label: "Legend", kind: "check", group: "Words", initially: true,
    explanation: "The names above each panel; a click on one hides it.",
    applies: () => true,
  },
];

// Texts with commas between them.
export function listOf(text: string): string[] {
  return text.split(",").map((one) => one.trim()).filter((one) => one);
}
