"""What a training job gets of a data set: pipes of shards, the JSON of a SageMaker job, its price.

Entry: `serve.serve`, `sagemaker.sagemaker` and `cost.cost`; `facts.facts_of` says what a data set
  consists of.
Always: no file of the data set is changed, and an epoch that is cut never looks whole.
Tests: tests/cli/test_serve.py, tests/cli/test_sagemaker.py, tests/cli/test_cost.py.
"""
